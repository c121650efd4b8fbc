#!/bin/sh
exec /run_program.sh aioquic-endpoint
