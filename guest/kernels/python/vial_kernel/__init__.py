# SPDX-License-Identifier: Apache-2.0
"""The Python kernel of a Vial sandbox: IPython's shell, driven by the agent over pipes."""
