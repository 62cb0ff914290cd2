/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO: who this sandbox is now, and the confirmation that everything unique about it has been renewed. */
#pragma once

#include <stdbool.h>

#include "wire/wire.h"

void vial_hello_receive(const struct vial_wire_frame *frame);
bool vial_hello_is_confirmed(void);
/* A snapshot is about to be taken: whoever wakes from it must hear a HELLO before anything runs. */
void vial_hello_withdraw(void);
