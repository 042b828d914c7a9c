#!/bin/sh
# Slurm's daemons and clients from Debian packages, where they are missing. Starts and configures nothing.
# Exit 3, with one sentence, where that is not possible.
set -eu

missing() {
    for command in munged slurmctld slurmd sbatch srun squeue scontrol scancel; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$command" > /dev/null || { echo "$command"; return; }
    done
}

refuse() {
    echo "$1"
    exit 3
}

absent=$(missing)
[ -n "$absent" ] || exit 0
command -v apt-get > /dev/null || refuse "$absent is missing and there is no apt-get to install it with; install Slurm and munge"
[ "$(id -u)" = 0 ] || refuse "$absent is missing and only root can install packages; type: sudo $0"
export DEBIAN_FRONTEND=noninteractive
packages="slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
install() {
    # shellcheck disable=SC2086
    apt-get install -y -q --no-install-recommends $packages > /dev/null 2>&1
}
install || { apt-get update -q > /dev/null 2>&1 && install; } ||
    refuse "apt-get could not install $packages; is there a package mirror, and is this Debian or Ubuntu?"
absent=$(missing)
[ -z "$absent" ] || refuse "$absent is still missing after apt-get installed $packages"
