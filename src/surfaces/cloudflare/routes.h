/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of Cloudflare's sandbox bridge, which the OpenAI Agents SDK speaks: "cloudflare" to the record. */
#pragma once

#include "http/request.h"

extern const VialRouteTable vial_cloudflare_table;
