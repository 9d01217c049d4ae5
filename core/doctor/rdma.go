package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// hca is one RDMA device.
type hca struct {
	name, line   string
	active, uses bool // a port is up and has an address; the program may open it
}

// rdma lists the devices and says whether a transport over RDMA could use them.
func (e *exam) rdma(context.Context) Result {
	var devices []hca
	entries, _ := fs.ReadDir(e.Root, "sys/class/infiniband") //nolint:errcheck // No folder, no devices.
	for _, d := range entries {
		devices = append(devices, e.device(d.Name()))
	}
	library := e.library("libibverbs.so.1")
	active, openable := 0, 0
	r := Result{Status: OK}
	for _, d := range devices {
		r.Details = append(r.Details, d.line)
		if d.active {
			active++
			if d.uses {
				openable++
			}
		}
	}
	where := "libibverbs is not installed"
	if library != "" {
		where = "libibverbs at " + library
	}
	r.Found = fmt.Sprintf("%s, %d active; %s", count(len(devices), "device"), active, where)
	bad := func(s Status, why, do string) Result {
		r.Status, r.Why, r.Do = s, why, do
		return r
	}
	switch {
	case !e.usesRDMA() && openable > 0:
		r.Found += "; store.transports does not name rdma"
		return r
	case !e.usesRDMA():
		return r
	case len(devices) == 0:
		return bad(Fail, "store.transports names rdma, and there is no device in /sys/class/infiniband", "load the driver, pass the devices to the container, or use tcp")
	case active == 0:
		return bad(Fail, "no device has a port that is up and has an address (GID)", "ibv_devinfo; check cable, switch and, for RoCE, the IP address of the interface")
	case openable == 0:
		return bad(Fail, "the devices cannot be opened: /dev/infiniband/uverbs* is missing", "pass --device=/dev/infiniband to the container")
	case library == "":
		return bad(Fail, "the transport opens libibverbs.so.1 when it starts", "apt-get install libibverbs1 ibverbs-providers, or dnf install libibverbs")
	case active < len(devices):
		return bad(Warn, "ports that are down carry nothing", "check cables and switches, or name the devices to use in store.device_names")
	}
	return r
}

// device describes one device by its first port that is up, else by its first.
func (e *exam) device(name string) hca {
	dir := "sys/class/infiniband/" + name
	d := hca{name: name, line: name + ": no port", uses: e.opens(name)}
	ports, _ := fs.ReadDir(e.Root, dir+"/ports") //nolint:errcheck // No folder, no ports.
	for i, p := range ports {
		port := dir + "/ports/" + p.Name()
		_, state, _ := strings.Cut(e.text(port+"/state"), ": ")
		gids := e.gids(port + "/gids")
		up := state == "ACTIVE" && gids > 0
		if i > 0 && !up {
			continue
		}
		d.line = fmt.Sprintf("%s: port %s %s, %s, %s, %s", name, p.Name(), state, e.text(port+"/link_layer"), e.text(port+"/rate"), count(gids, "GID"))
		if up {
			d.active = true
			break
		}
	}
	if n, known := e.number(dir + "/device/numa_node"); known && n >= 0 {
		d.line += fmt.Sprintf(", NUMA node %d", n)
	}
	if d.active && !d.uses {
		d.line += ", no uverbs device"
	}
	return d
}

// gids counts the addresses of a port that are set.
func (e *exam) gids(dir string) int {
	n := 0
	entries, _ := fs.ReadDir(e.Root, dir) //nolint:errcheck // No folder, no addresses.
	for _, g := range entries {
		if strings.Trim(e.text(dir+"/"+g.Name()), "0:") != "" {
			n++
		}
	}
	return n
}

// opens reports whether the device file of a device is there.
func (e *exam) opens(name string) bool {
	const dir = "sys/class/infiniband_verbs"
	entries, _ := fs.ReadDir(e.Root, dir) //nolint:errcheck // No folder, no device files.
	for _, u := range entries {
		if e.text(dir+"/"+u.Name()+"/ibdev") == name {
			return e.exists("dev/infiniband/" + u.Name())
		}
	}
	return false
}

// maxCache bounds what is read of the linker's cache, in bytes.
const maxCache = 8 << 20

// library returns where the dynamic linker finds a library, empty where it does not.
func (e *exam) library(name string) string {
	for _, dir := range []string{
		"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib",
		"usr/local/lib", "usr/local/lib64",
	} {
		if e.exists(dir + "/" + name) {
			return "/" + dir
		}
	}
	f, err := e.Root.Open("etc/ld.so.cache")
	if err != nil {
		return ""
	}
	defer f.Close()
	cache, err := io.ReadAll(io.LimitReader(f, maxCache))
	if err != nil {
		return ""
	}
	// The cache holds paths that end in a zero byte.
	for path := range bytes.SplitSeq(cache, []byte{0}) {
		if dir, is := bytes.CutSuffix(path, []byte("/"+name)); is && bytes.HasPrefix(dir, []byte("/")) {
			return string(dir)
		}
	}
	return ""
}
