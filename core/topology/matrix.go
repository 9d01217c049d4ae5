package topology

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// Matrix returns the topology matrix over these RDMA devices: for memory of a NUMA node the
// devices of the node are preferred; for a GPU those nearest to it in the PCI tree, among
// the devices of its node, or among all where its node has none. The rest is available.
func (m Machine) Matrix(devices []string) matrix.Matrix {
	var nics []NIC
	for _, n := range m.NICs {
		if slices.Contains(devices, n.Name) {
			nics = append(nics, n)
		}
	}
	entries := map[string]matrix.Entry{}
	for _, node := range m.Nodes {
		entries[node.Location()] = split(nics, func(n NIC) bool { return n.Node == node.ID })
	}
	for _, g := range m.GPUs {
		near := nearest(g, nics)
		entries[g.Name] = split(nics, func(n NIC) bool { return slices.Contains(near, n.Name) })
	}
	out, err := matrix.New(entries)
	if err != nil {
		return matrix.Matrix{} // Discover names no device that it refuses.
	}
	return out
}

func split(nics []NIC, preferred func(NIC) bool) (e matrix.Entry) {
	for _, n := range nics {
		if preferred(n) {
			e.Preferred = append(e.Preferred, n.Name)
		} else {
			e.Available = append(e.Available, n.Name)
		}
	}
	return e
}

// nearest returns the devices that a GPU prefers.
func nearest(g GPU, nics []NIC) (names []string) {
	candidates := slices.DeleteFunc(slices.Clone(nics), func(n NIC) bool { return g.Node < 0 || n.Node != g.Node })
	if len(candidates) == 0 {
		candidates = nics
	}
	best, known := 0, false
	for _, n := range candidates {
		d, ok := Distance(g.Device, n.Device)
		switch {
		case !ok && known, ok && known && d > best:
			continue
		case ok && (!known || d < best):
			best, known, names = d, true, nil
		}
		names = append(names, n.Name)
	}
	return names
}

// ReadMatrix reads the file that MC_CUSTOM_TOPO_JSON names. InvalidParams where it cannot be
// read, DeserializeFail where it is not a matrix.
func ReadMatrix(path string) (matrix.Matrix, error) {
	op := fmt.Sprintf("topology: read the custom matrix %q", path)
	// Asking first keeps a named pipe from blocking.
	if info, err := os.Stat(path); err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	} else if !info.Mode().IsRegular() {
		return matrix.Matrix{}, errs.New(errs.InvalidParams, op, "it is not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, matrix.MaxBytes+1))
	if err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	m, err := matrix.Parse(text)
	return m, errs.Wrap(errs.DeserializeFail, op, err)
}
