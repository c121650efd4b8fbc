#!/bin/sh
exec /run_program.sh quiche-endpoint
