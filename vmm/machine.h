/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole virtual machine and its life: build (boot or restore), resume and pause any number of times, fork, close. Everything here is
 * called by the control thread; vCPU threads and the device thread come and go with it.
 *
 *   built, parked --resume--> running --pause--> parked --(save | fork)--> parked ... --close-->
 */
#pragma once

#include <stdbool.h>

#include "config.h"
#include "devices.h"
#include "disk.h"
#include "kvm.h"
#include "memory.h"
#include "serial.h"
#include "vcpu.h"
#include "virtio/balloon.h"
#include "virtio/blk.h"
#include "virtio/console.h"
#include "virtio/net.h"

/* Longest wait for a vCPU to leave the guest or a device to finish a request. The lab is fifty times slower than hardware. */
#define VIAL_PARK_TIMEOUT_MS 20000u

struct vial_machine {
	unsigned vcpu_count;
	unsigned disk_count;
	bool has_net;
	bool is_running;
	struct vial_kvm kvm;
	struct vial_memory memory;
	struct vial_vcpu vcpus[VIAL_MAX_VCPUS];
	struct vial_vcpu_bus bus;
	/* Guest-visible order: console, disks, rng, balloon, net. */
	struct vial_virtio devices[VIAL_MAX_DEVICES];
	unsigned device_count;
	struct vial_console console;
	struct vial_blk blks[VIAL_MAX_DISKS];
	struct vial_balloon balloon;
	struct vial_net net;
	struct vial_serial serial;
	struct vial_devices device_thread;
	int generation_fd; /* irqfd of VMGenID */
	int end_fd;        /* readable when a vCPU has ended */
	int pagemap_fd;    /* our own pages: for recording the hot set, and what a cold-booted machine has touched; else -1 */
	int (*confine_vcpu)(void *self);
	int (*confine_devices)(void *self);
};

void vial_machine_init(struct vial_machine *machine);
/*
 * Opens the files, makes memory, devices and VM, and loads kernel or snapshot. Nothing of the guest has run when it returns. `tap_fd` is
 * taken over. `epoch` is set from a snapshot. On failure *out_error is one sentence.
 */
int vial_machine_build(struct vial_machine *machine, const struct vial_config *config, int tap_fd, uint16_t *epoch, const char **out_error);
/* Starts the threads, parked. Between build and this the process enters its jail. */
int vial_machine_start(struct vial_machine *machine);
void vial_machine_resume(struct vial_machine *machine);
int vial_machine_pause(struct vial_machine *machine);
/* The reason a vCPU ended, as docs/wire.md has it, or NULL while all run. */
const char *vial_machine_end(const struct vial_machine *machine, const struct vial_vcpu **out_vcpu);
void vial_machine_close(struct vial_machine *machine);

/* machine_vm.c: the KVM side, which boot, restore and fork share. */
void vial_machine_init_bus(struct vial_machine *machine);
int vial_machine_create_vm(struct vial_machine *machine, const char **out_error);
int vial_machine_load_vm(struct vial_machine *machine, const struct vial_state *state);
/* In a fork, before create_vm: forgets the parent's VM, vCPUs, threads and eventfds. */
void vial_machine_forget_vm(struct vial_machine *machine);
/* A new identity for the guest's kernel: 16 fresh bytes and, except before it boots, the interrupt that says so. */
void vial_machine_new_generation(struct vial_machine *machine, bool announces);

/* While parked: everything but memory and disk contents. */
struct vial_saved_wire {
	uint16_t epoch;
	const uint8_t *unparsed; /* guest bytes that the relay holds: part of a frame */
	size_t unparsed_bytes;
};
int vial_machine_save(struct vial_machine *machine, const struct vial_saved_wire *wire, struct vial_state_writer *writer);
int vial_machine_load(struct vial_machine *machine, const struct vial_state *state, uint16_t *out_epoch);
