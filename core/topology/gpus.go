package topology

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maker is a vendor of accelerators: how locations on its devices begin, and the PCI
// classes of the devices.
type maker struct {
	prefix  string
	classes []string
}

// Classes: 0300 and 0302 are VGA and 3D controllers, 0380 other display controllers, 1200
// processing accelerators.
func makerOf(vendor string) maker {
	switch vendor {
	case "0x10de":
		return maker{"cuda", []string{"0x0300", "0x0302"}}
	case "0x1002":
		return maker{"hip", []string{"0x0300", "0x0302", "0x0380", "0x1200"}}
	case "0x1ed5":
		return maker{"musa", []string{"0x0300", "0x0302"}}
	case "0x9999":
		return maker{"maca", []string{"0x0300", "0x0302", "0x0380"}}
	case "0x19e5":
		return maker{"npu", []string{"0x1200"}}
	}
	return maker{}
}

// gpus lists the accelerators. Those that a virtual machine has, and virtual functions,
// are not this machine's to use.
func (l *look) gpus() []GPU {
	const base = "sys/bus/pci/devices"
	var out []GPU
	count := map[string]int{}
	addresses := l.list(base)
	slices.Sort(addresses)
	for _, address := range addresses {
		if !isPCI(address) {
			continue
		}
		dir, ok := l.real(base + "/" + address)
		if !ok || lastPCI(dir) != dir {
			continue
		}
		class := l.text(dir + "/class")
		switch class[:min(len(class), 6)] {
		case "0x0300", "0x0302", "0x0380", "0x1200":
		default:
			continue
		}
		vendor, device := l.text(dir+"/vendor"), l.text(dir+"/device")
		m := makerOf(vendor)
		if !slices.Contains(m.classes, class[:6]) || l.exists(dir+"/physfn") {
			continue
		}
		if driver, ok := l.real(dir + "/driver"); ok && path.Base(driver) == "vfio-pci" {
			continue
		}
		if len(out) == maxList {
			l.warn("there are more than %d GPUs", maxList)
			break
		}
		out = append(out, GPU{
			Device: l.device(fmt.Sprintf("%s:%d", m.prefix, count[m.prefix]), dir),
			Model:  strings.TrimPrefix(vendor, "0x") + ":" + strings.TrimPrefix(device, "0x"),
		})
		count[m.prefix]++
	}
	return out
}
