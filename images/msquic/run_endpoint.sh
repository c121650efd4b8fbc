#!/bin/sh
exec /run_program.sh msquic-endpoint
