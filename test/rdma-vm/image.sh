# shellcheck shell=bash
#
# The VM's image: a Debian kernel and an initramfs, kept in a cache. Part of rdma-vm,
# which sources it; needs its log, die, children and work.

# Debian packages: first what builds and boots the VM, then what the guest uses from the
# host's root file system (rdma, the verbs provider of rxe, the diagnostic programs).
readonly PACKAGES=(
  qemu-system-x86 kmod cpio xz-utils
  iproute2 ibverbs-providers ibverbs-utils rdmacm-utils perftest dmsetup e2fsprogs
)

# The flavour of the kernel: the "cloud" one has neither rdma_rxe nor 9p.
readonly KERNEL_PACKAGE=linux-image-amd64

# Kernel modules in the order of loading; modprobe adds what they depend on. rdma_rxe
# looks crc32_generic up by name, for the checksum of its packets.
readonly MODULES=(
  virtio_pci virtio_console virtio-rng 9pnet_virtio 9p overlay
  virtio_net dummy macvlan crc32_generic rdma_rxe ib_uverbs rdma_ucm ib_umad
  veth sch_netem sch_tbf
  loop ext4 dm_mod dm_flakey dm_delay
)

# as_root COMMAND...: runs it as root, through sudo where needed.
as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# unavailable MESSAGE: ends a setup that cannot work on this machine, with a status of its own.
unavailable() {
  log "$*"
  [[ $only != setup ]] || exit 75
  exit 125
}

# apt COMMAND...: apt-get that asks nothing, waits for another one to end and does not give
# up on a mirror at once, nor wait for it forever.
apt() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "$@" </dev/null >&2
}

# refresh_lists: apt-get update, once in a run at most.
refresh_lists() {
  [[ -z ${lists_fresh:-} ]] || return 0
  apt update
  lists_fresh=1
}

# missing_packages: prints those of PACKAGES that are not installed.
missing_packages() {
  local p
  for p in "${PACKAGES[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] ||
      echo "$p"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  log "installing ${missing[*]}"
  refresh_lists || log "the lists of packages are not fresh"
  apt install -y --no-install-recommends --download-only "${missing[@]}" ||
    unavailable "cannot download ${missing[*]}"
  apt install -y --no-install-recommends "${missing[@]}"
}

# obstacle: prints why this machine cannot run the VM at all, nothing if it can.
obstacle() {
  if [[ $(uname -s) != Linux || $(uname -m) != x86_64 ]]; then
    echo "needs Linux on x86-64, this is $(uname -s) on $(uname -m)"
  elif ! command -v apt-get >/dev/null; then
    echo "needs the packages of Debian or Ubuntu, there is no apt-get here"
  elif [[ $EUID -ne 0 && -n $(missing_packages) ]] && ! sudo -n true 2>/dev/null; then
    echo "needs root, or sudo without a password, to install: $(missing_packages | tr '\n' ' ')"
  fi
}

# extract_vmlinux BZIMAGE: prints the ELF kernel inside it. Handing QEMU that (through its
# PVH entry point) saves the emulated CPU the decompression. The header's fields are those
# of the Linux/x86 boot protocol.
extract_vmlinux() {
  local image=$1 sects offset length
  sects=$(od -An -tu1 -j 497 -N 1 "$image")          # 0x1f1 setup_sects
  offset=$(od -An -tu4 -j 584 -N 4 "$image")         # 0x248 payload_offset
  length=$(od -An -tu4 -j 588 -N 4 "$image")         # 0x24c payload_length
  # The payload's last 4 bytes are its unpacked size, not part of the stream.
  dd if="$image" iflag=skip_bytes,count_bytes bs=1M status=none \
    skip=$(((sects + 1) * 512 + offset)) count=$((length - 4)) | xz -dc
}

# fetch_packages: downloads the packages of the kernel and busybox into the current
# directory. They are only unpacked, never installed: the kernel would become this
# machine's own, and busybox-static would push out another busybox.
fetch_packages() {
  local kernel
  # The one dependency of the metapackage names the current kernel's package.
  kernel=$(apt-cache depends "$KERNEL_PACKAGE" 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
  [[ -n $kernel ]] || return 1
  apt-get -qq -o APT::Sandbox::User=root download "$kernel" busybox-static \
    </dev/null >&2 || return 1
  echo "${kernel#linux-image-}" >version
}

# build_image DIR: makes DIR/vmlinux, DIR/initrd and DIR/version.
build_image() {
  local dir=$1 tree=$1/unpacked root=$1/root version deb m
  cd "$dir" || return

  log "downloading the guest's kernel"
  if ! fetch_packages; then           # no package lists, or outdated ones
    refresh_lists
    fetch_packages || die "cannot download $KERNEL_PACKAGE and busybox-static"
  fi
  version=$(<version)
  for deb in ./*.deb; do dpkg-deb -x "$deb" "$tree"; done
  rm -f ./*.deb

  extract_vmlinux "$tree/boot/vmlinuz-$version" >vmlinux

  # The initramfs: busybox, the modules and the order to load them in.
  mkdir -p "$root"/{bin,dev,proc,sys,modules,lower,upper,newroot}
  cp "$tree/bin/busybox" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  depmod -b "$tree" "$version"
  for m in "${MODULES[@]}"; do
    modprobe -d "$tree" -S "$version" --show-depends "$m"
  done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' |
    while read -r ko; do
      cp "$ko" "$root/modules/"
      basename "$ko"
    done >modules.list
  mv modules.list "$root/modules/list"
  grep -qx rdma_rxe.ko "$root/modules/list" || die "kernel $version has no rdma_rxe"

  # Not compressed: the emulated CPU reads it faster than it would inflate it.
  (cd "$root" && find . -print0 | sort -z |
    cpio --quiet --null --create --format newc --owner 0:0) >initrd
  rm -rf "$tree" "$root"
}

# prepare_image: sets image to the cached image, after building it when there is none yet
# that was made this way: the directory's name is a hash of the recipe.
prepare_image() {
  local cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} key
  cache=${cache:-/var/tmp/$PROG-$EUID}/mooncake-$PROG
  mkdir -p "$cache"
  # Do not boot a kernel that another user may have put there.
  [[ -O $cache ]] || die "$cache belongs to another user; set XDG_CACHE_HOME to a directory of yours"
  key=$({ echo "$KERNEL_PACKAGE" "${MODULES[@]}"
    declare -f build_image fetch_packages extract_vmlinux
  } | sha256sum | cut -c 1-16)
  image=$cache/$key
  if [[ -e $image/complete ]]; then
    touch "$image"                    # not one of older recipes, for other builders
    return 0
  fi

  exec {lock}>"$cache/lock"
  flock --wait 900 "$lock" ||         # one builder at a time
    die "another run is still building the image after 900 s"
  if [[ ! -e $image/complete ]]; then
    # Whatever a builder left that was killed, and images of older recipes.
    rm -rf "$cache"/build.*
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf {} +
    work=$(mktemp -d "$cache/build.XXXXXX")
    # In the background, since "set -e" would not hold inside a condition; as a process
    # group, for cleanup to end all of it.
    set -m
    build_image "$work" </dev/null & children+=("-$!")
    set +m
    wait $! || {
      (cd "$work" && fetch_packages) || unavailable "cannot download $KERNEL_PACKAGE and busybox-static"
      die "building the VM's image failed"
    }
    touch "$work/complete"
    chmod 755 "$work"
    rm -rf "$image"
    mv "$work" "$image"
    work=''
  fi
  exec {lock}>&-
}
