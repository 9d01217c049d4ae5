package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// NIC is an RDMA device of this machine as Links shows it.
type NIC struct {
	Device    string  `json:"device"`
	NUMA      int     `json:"numa"`
	GID       string  `json:"gid"`       // empty unless the engine uses the device
	GIDIndex  int     `json:"gid_index"` // -1 if it is unknown
	Port      int     `json:"port"`
	SpeedGbps float64 `json:"speed_gbps"`
	// Source is rdma_transport for a device that the engine uses, else topology.
	Source string `json:"source"`
}

// Picture has the devices of this machine and the paths to peers.
type Picture struct {
	NICs     []NIC           `json:"local_nics"`
	Topology json.RawMessage `json:"topology"`
	Links    []Link          `json:"links"`
}

// Link is a path to a peer over one transport.
type Link struct {
	Peer      string `json:"peer"`
	Transport string `json:"transport"`
	Rails     []Rail `json:"rails"`
}

// Rail is a pair of devices of a path. The names are empty if the transport has none.
type Rail struct {
	Local  string `json:"local"`
	Remote string `json:"remote"`
	State  string `json:"state"` // up, down, paused or returning
	Bytes  uint64 `json:"bytes"`
	Errors uint64 `json:"errors"`
}

// Links returns the devices of this machine, which of them the engine uses, and the paths to its
// peers.
func (e *Engine) Links() (Picture, error) {
	m, c, err := engine.Machine(e.src, "")
	if err != nil {
		return Picture{}, err
	}
	matrix, err := json.Marshal(c.Matrix)
	if err != nil {
		return Picture{}, err
	}
	p := Picture{NICs: []NIC{}, Topology: matrix, Links: []Link{}}
	gids := map[string]string{}
	e.mu.Lock()
	inner := e.inner
	e.mu.Unlock()
	if inner != nil {
		core, err := inner.Core()
		if err != nil {
			return Picture{}, err
		}
		for _, d := range core.Transfer.Descriptor().Devices {
			gids[d.Name] = d.GID
		}
		for _, l := range core.Transfer.Paths() {
			p.Links = append(p.Links, link(l))
		}
	}
	for _, n := range m.NICs {
		if slices.Contains(c.Devices, n.Name) {
			p.NICs = append(p.NICs, describe(n, gids))
		}
	}
	return p, nil
}

func link(l transfer.PathStats) Link {
	out := Link{Peer: l.Peer, Transport: l.Transport, Rails: []Rail{}}
	for _, r := range l.Rails {
		out.Rails = append(out.Rails, Rail{Local: r.Local, Remote: r.Remote, State: r.State, Bytes: r.Bytes, Errors: r.Errors})
	}
	return out
}

func describe(n topology.NIC, gids map[string]string) NIC {
	out := NIC{Device: n.Name, NUMA: n.Node, GIDIndex: -1, Source: "topology"}
	for _, port := range n.Ports {
		if out.Port == 0 || port.Active() {
			out.Port, out.SpeedGbps = port.Number, float64(port.Rate)/1e9
		}
	}
	if gid, ok := gids[n.Name]; ok {
		out.GID, out.Source = gid, "rdma_transport"
	}
	return out
}

// JSON returns the picture as one JSON object.
func (p Picture) JSON() (string, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	return string(text), err
}

// Text returns the picture as text.
func (p Picture) Text() string {
	var b strings.Builder
	b.WriteString("=== Local NICs ===\n")
	if len(p.NICs) == 0 {
		b.WriteString("  (no RDMA device)\n")
	}
	for _, n := range p.NICs {
		use := "in use"
		if n.Source == "topology" {
			use = "topology only"
		}
		fmt.Fprintf(&b, "  %s  numa %d  port %d  %g Gb/s  %s  (%s)\n", n.Device, n.NUMA, n.Port, n.SpeedGbps, n.GID, use)
	}
	fmt.Fprintf(&b, "=== Topology ===\n  %s\n=== Links ===\n", p.Topology)
	for _, l := range p.Links {
		fmt.Fprintf(&b, "  %s over %s\n", l.Peer, l.Transport)
		for _, r := range l.Rails {
			fmt.Fprintf(&b, "    %s - %s  %s  %d bytes, %d errors\n", r.Local, r.Remote, r.State, r.Bytes, r.Errors)
		}
	}
	return b.String()
}

// Loads returns the load of this machine's devices by the engine.
func (e *Engine) Loads() []transfer.DeviceLoad {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inner == nil {
		return nil
	}
	return e.inner.Loads()
}
