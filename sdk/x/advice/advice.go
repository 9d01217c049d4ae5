// Package advice holds what an operator reads when a machine is not set up for RDMA: the
// same words in the error of a transport and in the report of `mooncake doctor`.
//
// The package imports the standard library only.
package advice

import "fmt"

// Advice says why something does not work and what to do about it.
type Advice struct {
	Why, Do string
}

// Memlock is for a limit on pinned memory: limit is RLIMIT_MEMLOCK, need what is to be
// registered, both in bytes.
func Memlock(need, limit uint64) Advice {
	return Advice{
		Why: fmt.Sprintf("registering memory pins it, and %s of it are more than RLIMIT_MEMLOCK, which is %s", size(need), size(limit)),
		Do:  "ulimit -l unlimited in the shell, LimitMEMLOCK=infinity in the systemd unit, --ulimit memlock=-1 for a container, or the capability IPC_LOCK",
	}
}

// MemoryKeys is for a device that has no memory key or translation entry left.
func MemoryKeys(device string, regions, limit int) Advice {
	return Advice{
		Why: fmt.Sprintf("%s has no memory key left (MKEY): this process registered %d regions, the device allows %d for all processes", device, regions, limit),
		Do:  "register fewer, larger regions, use huge pages, stop other users of the device, or raise its limits with the vendor's tool (mlxconfig)",
	}
}

// NoGID is for a port without an address that peers could use.
func NoGID(device string, port, index int) Advice {
	if index >= 0 {
		return Advice{
			Why: fmt.Sprintf("GID %d of port %d of %s is empty or does not exist", index, port, device),
			Do:  "unset MC_GID_INDEX to let the address be chosen, or list the addresses: ibv_devinfo -v -d " + device,
		}
	}
	return Advice{
		Why: fmt.Sprintf("port %d of %s has no address (GID)", port, device),
		Do:  "for RoCE, give the network interface of the device an IP address; for InfiniBand, start a subnet manager; then: ibv_devinfo -v -d " + device,
	}
}

// MTUMismatch is for two ends that do not agree on the size of packets, in bytes.
func MTUMismatch(device string, ours, theirs int) Advice {
	return Advice{
		Why: fmt.Sprintf("%s sends packets of %d bytes and the peer takes %d", device, ours, theirs),
		Do:  "set the same MTU on both interfaces and the switch (ip link set DEV mtu 4200 for an RDMA MTU of 4096), or MC_MTU to the smaller one on both sides",
	}
}

// NoLibrary is for a machine without libibverbs.
func NoLibrary() Advice {
	return Advice{
		Why: "libibverbs.so.1 is not installed; the transport opens it when it starts",
		Do:  "apt-get install libibverbs1 ibverbs-providers, or dnf install libibverbs",
	}
}

// NoDevice is for a machine on which the kernel has no RDMA device.
func NoDevice() Advice {
	return Advice{
		Why: "there is no RDMA device in /sys/class/infiniband",
		Do:  "load the driver, pass the devices to the container, or use tcp",
	}
}

// NotOpenable is for devices whose files are missing or closed to this user.
func NotOpenable() Advice {
	return Advice{
		Why: "the devices cannot be opened: /dev/infiniband/uverbs* is missing or not readable and writable",
		Do:  "pass --device=/dev/infiniband to the container, or add the user to the group of the files",
	}
}

// NoPort is for devices without a port that is up.
func NoPort() Advice {
	return Advice{
		Why: "no device has a port that is up and has an address (GID)",
		Do:  "ibv_devinfo; check cable, switch and, for RoCE, the IP address of the interface",
	}
}

// size writes bytes with a binary unit, "unlimited" for the largest number.
func size(n uint64) string {
	switch {
	case n == ^uint64(0):
		return "unlimited"
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
