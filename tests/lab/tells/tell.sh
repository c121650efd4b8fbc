#!/bin/bash
# Says what it finds in its container, one fact a line, and ends with 3: both engines must give it the same.
id
echo "folder $PWD, process $$"
env | grep -v -e '^HOSTNAME=' -e '^_=' -e '^SHLVL=' | sort
for name in server4 server6 sim localhost; do getent ahosts "$name" | awk -v name="$name" '{print name, $1}' | sort -u; done
ip -brief address show dev eth0 | awk '{print $3}'
cat /sys/class/net/eth0/mtu /proc/sys/net/ipv4/ip_unprivileged_port_start
for place in / /tmp /logs /downloads /certs /dev/shm; do
  if touch "$place/trace" 2>/dev/null; then echo "$place can be written"; else echo "$place cannot be written"; fi
done
if echo 1 2>/dev/null >/proc/sys/net/ipv4/ip_forward; then echo "settings can be changed"; fi
for device in null zero full random urandom tty ptmx fd stdin stdout stderr; do [ -e "/dev/$device" ] && echo "/dev/$device"; done
exit 3
