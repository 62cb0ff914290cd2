/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest with bad intentions, loaded as an ELF kernel: writes rubbish to every virtio register and every ring, for ever. The random numbers
 * start from the first byte of the command line, so that runs can be told apart and repeated. Half of the time it brings a device up properly first, with
 * rings full of rubbish, so that the interesting code behind DRIVER_OK is reached.
 */
	.text
	.globl _start
	.code64
	.set mmio, 0xd0000000
	.set rings, 0x400000		/* 1 MiB of rubbish that queues are pointed at */

	.macro random			/* xorshift64 in r15; result in rax */
	movq %r15, %rax
	shlq $13, %rax
	xorq %rax, %r15
	movq %r15, %rax
	shrq $7, %rax
	xorq %rax, %r15
	movq %r15, %rax
	shlq $17, %rax
	xorq %rax, %r15
	movq %r15, %rax
	.endm

_start:
	movl $0x20000, %edi
	movzbl (%rdi), %eax
	movabsq $0x9e3779b97f4a7c15, %r15
	imulq %rax, %r15
	incq %r15
	/* The monitor's page tables map the first GiB; add the fourth, where the devices are. */
	movl $0x300000, %edi
	movl $(mmio & 0xc0000000) | 0x83, %eax
	movl $512, %ecx
8:
	movq %rax, (%rdi)
	addq $0x200000, %rax
	addq $8, %rdi
	decl %ecx
	jnz 8b
	movl $0x300003, %eax
	movl $0xa000, %edi
	movq %rax, 24(%rdi)
	movq %cr3, %rax
	movq %rax, %cr3
again:
	/* Some fresh rubbish in the rings: mostly small numbers, so that descriptors are sometimes valid. */
	movl $4096, %ecx
1:
	random
	movq %rax, %rbx
	andl $0xffff8, %ebx
	random
	testl $3, %eax
	jz 2f
	andl $0x7ffff, %eax
	addl $rings, %eax		/* addresses above our own code and page tables, or far out */
2:
	movq %rax, rings(%rbx)
	random
	andl $0x7, %eax
	movw %ax, rings+4(%rbx)
	decl %ecx
	jnz 1b

	/* A device. */
	random
	andl $7, %eax
	shll $12, %eax
	addl $mmio, %eax
	movl %eax, %esi
	random
	testl $1, %eax
	jz rubbish

	/* Brought up as a driver would. */
	movl $0, 0x70(%rsi)
	movl $1, 0x70(%rsi)
	movl $3, 0x70(%rsi)
	movl $1, 0x14(%rsi)
	movl $1, 0x24(%rsi)
	movl $1, 0x20(%rsi)
	movl $0, 0x14(%rsi)
	movl $0, 0x24(%rsi)
	movl 0x10(%rsi), %eax
	movl %eax, 0x20(%rsi)
	movl $11, 0x70(%rsi)
	xorl %ebx, %ebx
3:
	movl %ebx, 0x30(%rsi)
	movl 0x34(%rsi), %eax
	movl %eax, 0x38(%rsi)
	random
	andl $0xff000, %eax
	addl $rings, %eax
	movl %eax, 0x80(%rsi)
	movl $0, 0x84(%rsi)
	random
	andl $0xff000, %eax
	addl $rings, %eax
	movl %eax, %edx
	movl %eax, 0x90(%rsi)
	movl $0, 0x94(%rsi)
	/* The index of the available ring: a few entries ahead, or nonsense. */
	random
	andl $0x3f, %eax
	movw %ax, 2(%rdx)
	random
	andl $0xff000, %eax
	addl $rings, %eax
	movl %eax, 0xa0(%rsi)
	movl $0, 0xa4(%rsi)
	movl $1, 0x44(%rsi)
	incl %ebx
	cmpl $4, %ebx
	jb 3b
	movl $15, 0x70(%rsi)
	movl $32, %ecx
4:
	movl %ecx, %ebx
	andl $3, %ebx
	movl %ebx, 0x50(%rsi)
	decl %ecx
	jnz 4b

rubbish:
	movl $64, %ecx
5:
	random
	movl %eax, %ebx
	andl $0x1fc, %ebx
	shrq $32, %rax
	testl $0x100, %eax
	jz 6f
	andl $0xff, %eax
6:
	cmpl $0x70, %ebx		/* not always a reset */
	jne 7f
	orl $1, %eax
7:
	movl %eax, (%rsi,%rbx)
	movl (%rsi,%rbx), %eax
	movb %al, 1(%rsi,%rbx)
	movw 2(%rsi,%rbx), %ax
	decl %ecx
	jnz 5b
	jmp again
	.section .note.GNU-stack, "", @progbits
