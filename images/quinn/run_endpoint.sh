#!/bin/sh
exec /run_program.sh quinn-endpoint
