package topology

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// nics lists the RDMA devices.
func (l *look) nics() []NIC {
	const base = "sys/class/infiniband"
	files := l.deviceFiles()
	var out []NIC
	for _, name := range bounded(l, "RDMA devices", l.list(base)) {
		dir, ok := l.real(base + "/" + name)
		if !ok {
			l.warn("%s/%s: it leads nowhere", base, name)
			continue
		}
		d := NIC{Device: l.device(name, dir), File: files[name]}
		for _, port := range l.list(dir + "/ports") {
			if n, err := strconv.Atoi(port); err == nil && n >= 0 && n <= 255 && l.exists(dir+"/ports/"+strconv.Itoa(n)) {
				d.Ports = append(d.Ports, l.port(dir, n))
			}
		}
		out = append(out, d)
	}
	return out
}

// device describes the device of a class entry, whose real folder is dir. The device itself
// is the innermost function on the PCI bus above it.
func (l *look) device(name, dir string) Device {
	d := Device{Name: name, Path: dir, Node: NoNode}
	if at := lastPCI(dir); at != "" {
		d.Path, d.PCI, d.Node = at, path.Base(at), l.node(at)
	}
	return d
}

func (l *look) port(dir string, number int) Port {
	base := dir + "/ports/" + strconv.Itoa(number)
	p := Port{Number: number, LinkLayer: l.text(base + "/link_layer"), Rate: l.rate(base + "/rate"), Address: l.addressed(base + "/gids")}
	// "4: ACTIVE"
	_, p.State, _ = strings.Cut(l.text(base+"/state"), ": ")
	p.Netdev = l.netdev(dir, base, number)
	return p
}

// rate reads a speed such as "400 Gb/sec (4X NDR)".
func (l *look) rate(name string) uint64 {
	s := l.text(name)
	if s == "" {
		return 0
	}
	number, _, _ := strings.Cut(s, " ")
	gbit, err := strconv.ParseFloat(number, 64)
	if err != nil || gbit < 0 || gbit > 1e6 || math.IsNaN(gbit) || !strings.HasPrefix(s[len(number):], " Gb/sec") {
		l.warn("%s: %.40q is not a rate such as 400 Gb/sec", name, s)
		return 0
	}
	return uint64(math.Round(gbit * 1e9))
}

// addressed reports whether one of a port's addresses is set.
func (l *look) addressed(dir string) bool {
	const anything = "0000:0000:0000:0000:0000:0000:0000:0001"
	for _, index := range l.list(dir) {
		name, ok := l.real(dir + "/" + index)
		if !ok {
			continue
		}
		if s, ok := l.raw(name); ok && strings.Trim(s, "0:\n") != "" {
			l.notes.File(name, anything+"\n")
			return true
		}
	}
	return false
}

// netdev finds the interface of a port: what its first address says, what the driver says
// of soft devices, or the interface of the same function that is the same port of it.
func (l *look) netdev(dir, port string, number int) string {
	if s := l.text(port + "/gid_attrs/ndevs/0"); plain(s) {
		return s
	}
	if s := l.text(dir + "/parent"); plain(s) {
		return s
	}
	nets := lastPCI(dir) + "/net"
	names := l.list(nets)
	names = slices.DeleteFunc(names, func(name string) bool { return !l.exists(nets + "/" + name) })
	for _, name := range names {
		if l.number(nets+"/"+name+"/dev_port", 0, 255, -1) == number-1 {
			return name
		}
	}
	if len(names) == 1 && number == 1 {
		return names[0]
	}
	return ""
}

// deviceFiles says of which RDMA devices the device file is there. A tree without any /dev,
// such as a copy of /sys, cannot tell: then all are.
func (l *look) deviceFiles() map[string]bool {
	const base = "sys/class/infiniband_verbs"
	blind := !l.exists("dev")
	out := map[string]bool{}
	for _, name := range l.list(base) {
		if dir, ok := l.real(base + "/" + name); ok {
			if dev := l.text(dir + "/ibdev"); dev != "" && (blind || l.exists("dev/infiniband/"+name)) {
				out[dev] = true
			}
		}
	}
	return out
}

// nets lists the network interfaces that belong to a device.
func (l *look) nets() []Net {
	const base = "sys/class/net"
	var out []Net
	for _, name := range bounded(l, "network interfaces", l.list(base)) {
		dir, ok := l.real(base + "/" + name)
		if !ok || lastPCI(dir) == "" {
			continue
		}
		n := Net{Device: l.device(name, dir), State: l.text(dir + "/operstate")}
		// The kernel says -1 for what it does not know.
		if mbit := l.number(dir+"/speed", -1, 1<<30, 0); mbit > 0 {
			n.Speed = uint64(mbit) * 1e6
		}
		out = append(out, n)
	}
	return out
}
