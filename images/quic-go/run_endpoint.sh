#!/bin/sh
exec /run_program.sh quic-go-endpoint
