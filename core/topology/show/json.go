package show

import (
	"encoding/json"
	"io"

	"github.com/mooncake-go/mooncake/core/topology"
)

// JSON writes the machine, what lies between its GPUs and NICs, and the choice, as one
// object.
func JSON(w io.Writer, m topology.Machine, c topology.Choice) error {
	links := map[string]map[string]topology.Link{}
	for _, g := range m.GPUs {
		links[g.Name] = map[string]topology.Link{}
		for _, n := range m.NICs {
			links[g.Name][n.Name] = m.Link(g.Device, n.Device)
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Machine topology.Machine                    `json:"machine"`
		Links   map[string]map[string]topology.Link `json:"links"`
		Choice  topology.Choice                     `json:"choice"`
	}{m, links, c})
}

// Matrix writes the topology matrix alone, on one line, as MC_CUSTOM_TOPO_JSON and nodes of
// upstream take it.
func Matrix(w io.Writer, c topology.Choice) error {
	_, err := io.WriteString(w, c.Matrix.String()+"\n")
	return err
}
