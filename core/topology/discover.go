// Package topology says what a machine has and what is near to what: NUMA nodes, RDMA
// devices, network interfaces and GPUs, read from sysfs.
//
// Discover reads a machine through an fs.FS, which is the machine's own root or a
// recording of another (package recording). Choose then applies what the configuration says
// about devices, and gives the devices to use with their topology matrix. Package show
// prints both.
//
// A machine is described as far as it can be read. What is missing is left out, what makes
// no sense is left out with a warning; neither is an error. Files, folders and their number
// are bounded, so that a tree from a stranger can be looked at.
package topology

import (
	"io/fs"

	"github.com/mooncake-go/mooncake/core/topology/recording"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Discover reads a machine from its file system, rooted at "/": os.DirFS("/") for this one.
// It takes some milliseconds and is for the start of a process. The root has to be an
// fs.ReadLinkFS, since places in the PCI tree are told by links; NotSupported otherwise.
func Discover(root fs.FS) (Machine, error) { return discover(root, discard{}) }

// Record is Discover, and keeps what was looked at. Discovering the recording gives the same
// machine. Addresses of ports are replaced by one that says nothing.
func Record(root fs.FS) (Machine, *recording.Recording, error) {
	r := recording.New()
	m, err := discover(root, r)
	return m, r, err
}

func discover(root fs.FS, n notes) (Machine, error) {
	links, ok := root.(fs.ReadLinkFS)
	if !ok {
		return Machine{}, errs.New(errs.NotSupported, "topology: discover", "the file system %T has no symbolic links", root)
	}
	l := &look{root: links, notes: n}
	if !l.exists("sys") {
		l.warn("there is no /sys: nothing is known of the machine")
	}
	m := Machine{Nodes: l.nodes(), NICs: l.nics(), Nets: l.nets(), GPUs: l.gpus()}
	owner := map[string]string{}
	for _, nic := range m.NICs {
		for _, p := range nic.Ports {
			if p.Netdev != "" {
				owner[p.Netdev] = nic.Name
			}
		}
	}
	for i := range m.Nets {
		m.Nets[i].NIC = owner[m.Nets[i].Name]
	}
	m.Warnings = l.warnings
	return m, nil
}

// bounded cuts a list of devices, and says so.
func bounded[T any](l *look, what string, list []T) []T {
	if len(list) > maxList {
		l.warn("there are %d %s; only %d are looked at", len(list), what, maxList)
		return list[:maxList]
	}
	return list
}
