package topology

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
