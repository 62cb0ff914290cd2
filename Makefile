# SPDX-License-Identifier: Apache-2.0
# The newcomer's door. Each target is one script; the scripts say what they do.
#
#   make up      install what is missing, build, make the guest images, start the server on 127.0.0.1:7070
#   make test    the whole test suite, with its own set-up            make test SUITES="api cli"    some of it
#   make build   build/viald, build/vial, build/vial-shim, build/vial-agent
#   make bench   measure, beside the floors it is compared with       make bench ARGS="--quick --compare OLD.json"    in minutes, beside an older run
#   make soak    thousands of creations: does anything leak?
#   make lab     the microVM engine's suite in an emulated machine with hardware virtualisation (QEMU; slow)
#   make clean   remove build/       make clean-images    remove guest images of older recipes

.PHONY: up build test bench soak lab clean clean-images help
.DEFAULT_GOAL := help

up:
	@exec scripts/up $(ARGS)

build:
	@scripts/install-deps build
	@scripts/build

test:
	@exec scripts/test $(SUITES)

bench:
	@exec scripts/bench run $(ARGS)

soak:
	@exec scripts/bench soak $(ARGS)

lab:
	@scripts/install-deps build run guest lab
	@scripts/build all
	@VIAL_DATA=$${VIAL_DATA_TEST:-/var/lib/vial-test} scripts/build-image minimal
	@exec scripts/lab

clean:
	rm -rf build

clean-images:
	@exec scripts/clean-images

help:
	@sed -n 's/^#   //p' Makefile
