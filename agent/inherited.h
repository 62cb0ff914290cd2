/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that a restored guest remembers and does not have: it is a copy (a fork, a snapshot's child), or it slept longer than its place in
 * the network was kept. Whatever it sends on them is reset outside, but who only listens would wait for ever. So each gets a segment that cannot be
 * its peer's, forged here and never seen outside; the guest's kernel answers the peer with what it expects next, and that answer is reset.
 *
 * IPv4 only: gVisor takes no IPv6 packet with a header of ours, so there a silent reader does wait until it says something.
 *
 * For gVisor, which has no way to close another's socket; a Linux guest's kernel takes no such segment from itself, and nothing happens.
 */
#pragma once

void vial_inherited_end(void);
