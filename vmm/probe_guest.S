/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe's guest. Entered in 64-bit mode with the first GiB mapped one to one and writable, loaded at 2 MiB. Each finished step is an OUT of its
 * number to port 0xf4; a fault has no handler and becomes a triple fault, so the last number tells where it went wrong.
 *   1 running  2 SSE  3 XSAVE and AVX  4 CMPXCHG16B  5 loop done  6 exits done  7 ring 3 and back
 */
	.section .rodata.vial_probe_guest, "a", @progbits
	.globl vial_probe_guest_start
	.globl vial_probe_guest_end
	.hidden vial_probe_guest_start
	.hidden vial_probe_guest_end
	.balign 16
	.code64

	.macro step number
	movb $\number, %al
	outb %al, $0xf4
	.endm

vial_probe_guest_start:
	leaq stack_top(%rip), %rsp
	step 1

	/* Enable SSE and, where CPUID has it, XSAVE. */
	movq %cr0, %rax
	andq $~(1 << 2), %rax
	orq $(1 << 1), %rax
	movq %rax, %cr0
	movq %cr4, %rax
	orq $((1 << 9) | (1 << 10)), %rax
	movq %rax, %cr4
	movl $3, %eax
	movd %eax, %xmm0
	pshufd $0, %xmm0, %xmm1
	paddd %xmm1, %xmm1
	movd %xmm1, %eax
	cmpl $6, %eax
	jne fail
	step 2

	movl $1, %eax
	xorl %ecx, %ecx
	cpuid
	movl %ecx, %r8d
	btl $26, %r8d
	jnc 1f
	movq %cr4, %rax
	orq $(1 << 18), %rax
	movq %rax, %cr4
	xorl %ecx, %ecx
	xgetbv
	orl $3, %eax
	btl $28, %r8d
	jnc 2f
	orl $4, %eax
2:
	xsetbv
	leaq xsave_area(%rip), %rdi
	movl $7, %eax
	xorl %edx, %edx
	xsave64 (%rdi)
	movl $7, %eax
	xorl %edx, %edx
	xrstor64 (%rdi)
	btl $28, %r8d
	jnc 1f
	vpxor %xmm2, %xmm2, %xmm2
	vpcmpeqd %xmm3, %xmm3, %xmm3
	vpaddd %xmm3, %xmm2, %xmm4
	vmovd %xmm4, %eax
	cmpl $-1, %eax
	jne fail
1:
	step 3

	btl $13, %r8d
	jnc 5f
	leaq pair(%rip), %rdi
	xorl %eax, %eax
	xorl %edx, %edx
	movl $5, %ebx
	movl $6, %ecx
	lock cmpxchg16b (%rdi)
	jnz fail
	cmpl $5, pair(%rip)
	jne fail
5:
	step 4

	movl $20000000, %ecx
3:
	subl $1, %ecx
	jnz 3b
	step 5

	movl $256, %ecx
4:
	movb $0x80, %al
	outb %al, $0xf4
	subl $1, %ecx
	jnz 4b
	step 6

	/* A GDT with user segments and a TSS-less SYSCALL/SYSRET trip. */
	leaq gdt(%rip), %rax
	movq %rax, gdt_pointer + 2(%rip)
	lgdt gdt_pointer(%rip)
	movl $0xc0000080, %ecx
	rdmsr
	orl $1, %eax
	wrmsr
	movl $0xc0000081, %ecx
	xorl %eax, %eax
	movl $((0x10 << 16) | 0x08), %edx
	wrmsr
	movl $0xc0000082, %ecx
	leaq from_user(%rip), %rax
	movq %rax, %rdx
	shrq $32, %rdx
	wrmsr
	movl $0xc0000084, %ecx
	xorl %eax, %eax
	xorl %edx, %edx
	wrmsr
	/* Ring 3 may only touch user pages: mark the mapping so (PML4, PDPT, and our 2 MiB page). */
	movq %cr3, %rax
	orq $4, (%rax)
	movq (%rax), %rax
	andq $~0xfff, %rax
	orq $4, (%rax)
	movq (%rax), %rax
	andq $~0xfff, %rax
	orq $4, 8(%rax)
	movq %cr3, %rax
	movq %rax, %cr3
	leaq in_user(%rip), %rcx
	movl $2, %r11d
	sysretq

in_user:
	movq %cs, %rbx
	andl $3, %ebx
	syscall

from_user:
	leaq stack_top(%rip), %rsp
	cmpl $3, %ebx
	jne fail
	step 7
	hlt

fail:
	movb $0xff, %al
	outb %al, $0xf4
	hlt

	.balign 64
gdt:
	.quad 0
	.quad 0x00af9b000000ffff	/* 0x08 kernel code */
	.quad 0x00cf93000000ffff	/* 0x10 kernel data */
	.quad 0x00cff3000000ffff	/* 0x18 user data (SYSRET: STAR base 0x10 + 8) */
	.quad 0x00affb000000ffff	/* 0x20 user code (SYSRET: base + 16) */
gdt_pointer:
	.word 5 * 8 - 1
	.quad 0
	.balign 16
pair:
	.quad 0, 0
	.balign 64
xsave_area:
	.fill 4096, 1, 0
	.fill 512, 1, 0
stack_top:
	.quad 0
vial_probe_guest_end:

	.section .note.GNU-stack, "", @progbits
