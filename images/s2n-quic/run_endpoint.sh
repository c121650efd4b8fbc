#!/bin/sh
exec /run_program.sh s2n-quic-endpoint
