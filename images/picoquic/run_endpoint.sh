#!/bin/sh
exec /run_program.sh picoquic-endpoint
