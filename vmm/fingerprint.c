/* SPDX-License-Identifier: Apache-2.0 */
/* See fingerprint.h. */
#include "fingerprint.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

static void put_build_id(const uint8_t *note, size_t length, char *out, size_t out_bytes)
{
	for (size_t i = 0; i < length && 2 * i + 2 < out_bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", note[i]);
}

/* The linker's note, found through our own program headers. */
static void find_build_id(char *out, size_t out_bytes)
{
	const Elf64_Phdr *segment = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long count = getauxval(AT_PHNUM);
	extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

	snprintf(out, out_bytes, "%s", VIAL_VERSION);
	for (; segment && __ehdr_start && count > 0; count--, segment++) {
		const uint8_t *at = (const uint8_t *)__ehdr_start + segment->p_offset;
		const uint8_t *end = at + segment->p_filesz;

		while (segment->p_type == PT_NOTE && at + sizeof(Elf64_Nhdr) < end) {
			const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;
			const uint8_t *description = at + sizeof(*note) + ((note->n_namesz + 3u) & ~3u);

			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4) {
				put_build_id(description, note->n_descsz, out, out_bytes);
				return;
			}
			at = description + ((note->n_descsz + 3u) & ~3u);
		}
	}
}

static uint32_t sum_cpuid(const struct kvm_cpuid2 *cpuid)
{
	uint32_t crc = 0;

	for (unsigned i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 entry = cpuid->entries[i];

		/* The APIC id of the processor we happen to run on, and the wobbling frequency. */
		if (entry.function == 1)
			entry.ebx &= 0x0000ffffu;
		if (entry.function == 0x15 || entry.function == 0x16 || entry.function == 0x40000010)
			continue;
		/* XSAVE's size for what is enabled just now. */
		if (entry.function == 0xd && entry.index <= 1)
			entry.ebx = 0;
		crc = vial_crc32c(crc, &entry, sizeof(entry));
	}
	return crc;
}

void vial_fingerprint_get(const struct vial_kvm *kvm, struct vial_fingerprint *out)
{
	struct utsname name;

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < kvm->cpuid->nent; i++) {
		const struct kvm_cpuid_entry2 *entry = &kvm->cpuid->entries[i];

		if (entry->function == 0) {
			memcpy(out->vendor, &entry->ebx, 4);
			memcpy(out->vendor + 4, &entry->edx, 4);
			memcpy(out->vendor + 8, &entry->ecx, 4);
		} else if (entry->function == 1) {
			out->signature = entry->eax;
		}
	}
	out->features = sum_cpuid(kvm->cpuid);
	if (uname(&name) == 0)
		snprintf(out->kernel, sizeof(out->kernel), "%.63s", name.release);
	find_build_id(out->build, sizeof(out->build));
	out->version = VIAL_STATE_VERSION;
}

void vial_fingerprint_save(const struct vial_kvm *kvm, struct vial_state_writer *writer)
{
	struct vial_fingerprint fingerprint;

	vial_fingerprint_get(kvm, &fingerprint);
	vial_state_put(writer, VIAL_STATE_HOST, 0, &fingerprint, sizeof(fingerprint));
}

int vial_fingerprint_check(const struct vial_kvm *kvm, const struct vial_state *state, const char **out_error)
{
	struct vial_fingerprint here, there;

	vial_fingerprint_get(kvm, &here);
	*out_error = "the snapshot has no host fingerprint";
	if (vial_state_get(state, VIAL_STATE_HOST, 0, &there, sizeof(there)) < 0)
		return -EXDEV;
	*out_error = "the snapshot was made on another CPU model";
	if (memcmp(here.vendor, there.vendor, sizeof(here.vendor)) != 0 || here.signature != there.signature)
		return -EXDEV;
	*out_error = "the snapshot was made with other CPU features";
	if (here.features != there.features)
		return -EXDEV;
	*out_error = "the snapshot was made under another host kernel";
	if (memcmp(here.kernel, there.kernel, sizeof(here.kernel)) != 0)
		return -EXDEV;
	*out_error = "the snapshot was made by another build of vial-vmm";
	if (here.version != there.version || memcmp(here.build, there.build, sizeof(here.build)) != 0)
		return -EXDEV;
	return 0;
}
