/* SPDX-License-Identifier: Apache-2.0 */
/* See serial.h. What is sent is gone at once, so the transmitter is always empty and only that interrupt exists. */
#include "serial.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

#define IER_TRANSMITTER_EMPTY 2u
#define LCR_DLAB 0x80u
#define LSR_IDLE 0x60u
#define IIR_NONE 1u
#define IIR_TRANSMITTER_EMPTY 2u
#define IIR_FIFO 0xc0u
#define MSR_READY 0xb0u

struct saved {
	uint8_t registers[7];
	uint8_t has_empty_interrupt;
};

void vial_serial_init(struct vial_serial *serial, int log_fd)
{
	*serial = (struct vial_serial){ .log_fd = log_fd, .interrupt_fd = -1 };
	pthread_mutex_init(&serial->lock, NULL);
}

static void signal_empty(struct vial_serial *serial)
{
	if (!(serial->ier & IER_TRANSMITTER_EMPTY))
		return;
	serial->has_empty_interrupt = true;
	vial_file_post(serial->interrupt_fd);
}

static void write_data(struct vial_serial *serial, uint8_t value)
{
	if (serial->log_fd >= 0 && serial->written_bytes < VIAL_SERIAL_MAX_BYTES && write(serial->log_fd, &value, 1) == 1)
		serial->written_bytes++;
	signal_empty(serial);
}

static void write_register(struct vial_serial *serial, unsigned offset, uint8_t value)
{
	bool is_divisor = serial->lcr & LCR_DLAB;

	switch (offset) {
	case 0:
		if (is_divisor)
			serial->dll = value;
		else
			write_data(serial, value);
		break;
	case 1:
		if (is_divisor) {
			serial->dlm = value;
		} else {
			serial->ier = value & 0xf;
			signal_empty(serial);
		}
		break;
	case 2:
		serial->fcr = value;
		break;
	case 3:
		serial->lcr = value;
		break;
	case 4:
		serial->mcr = value;
		break;
	case 7:
		serial->scr = value;
		break;
	}
}

static uint8_t read_register(struct vial_serial *serial, unsigned offset)
{
	bool is_divisor = serial->lcr & LCR_DLAB;
	uint8_t value;

	switch (offset) {
	case 0:
		return is_divisor ? serial->dll : 0;
	case 1:
		return is_divisor ? serial->dlm : serial->ier;
	case 2:
		value = serial->has_empty_interrupt ? IIR_TRANSMITTER_EMPTY : IIR_NONE;
		serial->has_empty_interrupt = false;
		return (uint8_t)(value | (serial->fcr & 1 ? IIR_FIFO : 0));
	case 3:
		return serial->lcr;
	case 4:
		return serial->mcr;
	case 5:
		return LSR_IDLE;
	case 6:
		return MSR_READY;
	default:
		return serial->scr;
	}
}

void vial_serial_access(struct vial_serial *serial, unsigned offset, bool is_write, uint8_t *value)
{
	pthread_mutex_lock(&serial->lock);
	if (is_write)
		write_register(serial, offset & 7, *value);
	else
		*value = read_register(serial, offset & 7);
	pthread_mutex_unlock(&serial->lock);
}

void vial_serial_save(const struct vial_serial *serial, struct vial_state_writer *writer)
{
	struct saved saved = {
		.registers = { serial->ier, serial->lcr, serial->mcr, serial->scr, serial->dll, serial->dlm, serial->fcr },
		.has_empty_interrupt = serial->has_empty_interrupt,
	};

	vial_state_put(writer, VIAL_STATE_SERIAL, 0, &saved, sizeof(saved));
}

int vial_serial_load(struct vial_serial *serial, const struct vial_state *state)
{
	struct saved saved;

	if (vial_state_get(state, VIAL_STATE_SERIAL, 0, &saved, sizeof(saved)) < 0)
		return -EPROTO;
	serial->ier = saved.registers[0];
	serial->lcr = saved.registers[1];
	serial->mcr = saved.registers[2];
	serial->scr = saved.registers[3];
	serial->dll = saved.registers[4];
	serial->dlm = saved.registers[5];
	serial->fcr = saved.registers[6];
	serial->has_empty_interrupt = saved.has_empty_interrupt;
	return 0;
}
