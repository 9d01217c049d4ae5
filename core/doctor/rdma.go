package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// hca is one RDMA device.
type hca struct {
	name, line   string
	active, uses bool // a port is up and has an address; the program may open it
	port         string
	mtu          int64 // of the network interface, 0 for unknown
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
	told := func(a advice.Advice) Result { return bad(Fail, a.Why, a.Do) }
	switch {
	case !e.usesRDMA() && openable > 0:
		r.Found += "; store.transports does not name rdma"
		return r
	case !e.usesRDMA():
		return r
	case len(devices) == 0:
		return told(advice.NoDevice())
	case active == 0:
		return told(advice.NoPort())
	case openable == 0:
		return told(advice.NotOpenable())
	case library == "":
		return told(advice.NoLibrary())
	}
	if r, is := e.gidIndex(devices, told); is {
		return r
	}
	for _, d := range devices[1:] {
		if first := devices[0]; d.mtu != 0 && first.mtu != 0 && d.mtu != first.mtu {
			a := advice.MTUMismatch("the interface of "+first.name, int(first.mtu), int(d.mtu))
			return bad(Warn, "the interfaces of "+first.name+" and "+d.name+" differ in their MTU: "+a.Why, a.Do)
		}
	}
	if active < len(devices) {
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
		d.port = p.Name()
		d.line = fmt.Sprintf("%s: port %s %s, %s, %s, %s", name, p.Name(), state, e.text(port+"/link_layer"), e.text(port+"/rate"), count(gids, "GID"))
		if netdev := e.text(port + "/gid_attrs/ndevs/0"); netdev != "" {
			d.mtu, _ = e.number("sys/class/net/" + netdev + "/mtu")
			d.line += fmt.Sprintf(", interface %s of MTU %d", netdev, d.mtu)
		}
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

// gidIndex looks for the address that the configuration names.
func (e *exam) gidIndex(devices []hca, told func(advice.Advice) Result) (Result, bool) {
	id := plugin.ID{Kind: plugin.KindTransport, Name: "rdma"}
	index, given := e.cfg.Plugins.Get(id).Config["gid_index"].(int64)
	if !given || index < 0 {
		return Result{}, false
	}
	for _, d := range devices {
		gid := e.text(fmt.Sprintf("sys/class/infiniband/%s/ports/%s/gids/%d", d.name, d.port, index))
		if d.active && strings.Trim(gid, "0:") == "" {
			port, _ := strconv.Atoi(d.port) //nolint:errcheck // 0 where the kernel names ports in another way.
			return told(advice.NoGID(d.name, port, int(index))), true
		}
	}
	return Result{}, false
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
