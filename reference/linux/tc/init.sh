#!/bin/sh
# First process of a User-Mode-Linux guest whose root is the host's file system, read-only. The kernel command line
# contains `work=FOLDER`: FOLDER/job.sh is the job, FOLDER/modules the kernel's modules (if it has any), and
# FOLDER/tools the programs modprobe and busybox.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /run
for word in $(cat /proc/cmdline); do case $word in work=*) work=${word#work=} ;; esac; done
cd /run
if [ -d "$work/modules" ]; then
    mkdir -p /run/lib/modules; ln -s "$work/modules/$(uname -r)" "/run/lib/modules/$(uname -r)"
    for module in dummy ifb act_mirred cls_matchall cls_flower sch_ingress sch_cake sch_red sch_sfb sch_gred \
        sch_choke sch_htb sch_codel sch_fq_codel sch_fq sch_pie sch_fq_pie sch_sfq sch_netem sch_tbf sch_dualpi2; do
        "$work/tools/modprobe" -q -d /run "$module"
    done
fi
echo "kernel $(uname -r)"
. "$work/job.sh"
exec "$work/tools/busybox" poweroff -f
