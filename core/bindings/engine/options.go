package engine

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings that a program gives for its engine.
type Options struct {
	// Name is the address of this process for peers: a host, or host:port. Without a metadata
	// service it may be empty, a wildcard, or have port 0, since peers use an address that they
	// know.
	Name string `json:"local_hostname"`
	// Metadata is P2PHANDSHAKE, http://host:port/metadata, etcd://host:port,
	// redis://host:port, or host:port, which is etcd.
	Metadata string `json:"metadata_server"`
	// MetadataType is the scheme of a Metadata without one. It may be empty.
	MetadataType string `json:"metadata_type"`
	// Protocol is a preference, as in the reference implementation: for both "rdma" and "tcp", the
	// engine uses RDMA if the machine has it, and TCP otherwise. "shm" puts shared memory first.
	Protocol string `json:"protocol"`
	// Devices are the RDMA devices to use, separated by commas; empty for all.
	Devices string `json:"device_name"`

	// Transports are exactly the transports to use, and each must start. With nil, Protocol selects
	// them.
	Transports []string `json:"-"`
	// TopologyFile replaces the topology of the machine's devices unless it is empty.
	TopologyFile string `json:"-"`
	// KeepPort makes the handshake listen on the port of Name.
	KeepPort bool `json:"-"`
}

// ParseOptions parses a JSON object of texts. It returns InvalidParams for anything else.
func ParseOptions(text string) (Options, error) {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return Options{}, errs.Wrap(errs.InvalidParams, "initialize: settings", err)
	}
	return o, nil
}

// connection returns the connection string of the metadata service.
func (o Options) connection() string {
	switch kind := strings.ToLower(o.MetadataType); {
	case o.Metadata == open.P2PHandshake, kind == "p2p", kind == strings.ToLower(open.P2PHandshake):
		return open.P2PHandshake
	case kind == "", kind == "http", kind == "https", strings.Contains(o.Metadata, "://"):
		return o.Metadata
	default:
		return kind + "://" + o.Metadata
	}
}

// preferred returns the preferred transport on a machine with these devices.
func (o Options) preferred(nics []topology.NIC) (string, error) {
	switch o.Protocol {
	case "xgmi":
		return "", errs.New(errs.NotSupported, "initialize", "there is no protocol %q here; rdma and tcp take what the machine has", o.Protocol)
	case "rdma", "shm":
		return o.Protocol, nil
	}
	for _, nic := range nics {
		if ok, _ := nic.Usable(); ok {
			return "rdma", nil
		}
	}
	return "tcp", nil
}

// load makes the configuration.
func (o Options) load(src settings.Source) (*settings.Result, error) {
	if o.Name == "" && o.connection() == open.P2PHandshake {
		o.Name = "0.0.0.0" // Any address of this machine, since peers learn the name by other means.
	}
	if o.Name == "" {
		return nil, errs.New(errs.InvalidParams, "initialize", "local_hostname is empty; give this machine's name or address")
	}
	machine, err := topology.Discover(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	protocol, err := o.preferred(machine.NICs)
	if err != nil {
		return nil, err
	}
	given := map[string]string{"local_hostname": o.Name, "metadata_server": o.connection(), "protocol": protocol}
	// On a machine without devices their names have no effect: the engine uses TCP.
	if o.Devices != "" && (len(machine.NICs) > 0 || o.Transports != nil) {
		given["device_names"] = o.Devices
	}
	set, err := settings.Load(src, given)
	if err != nil {
		return nil, err
	}
	s := &set.Config.Store
	if o.Transports != nil {
		s.Protocol, s.Transports = o.Transports[0], slices.Clone(o.Transports)
		set.Config.Plugins.Transport = required(set.Config.Plugins.Transport, o.Transports)
	}
	if o.TopologyFile != "" {
		s.TopologyFile = o.TopologyFile
	}
	s.HandshakePortFromName = s.HandshakePortFromName || o.KeepPort
	return set, nil
}

// required returns the entries of plugins, with those of names marked as required.
func required(entries map[string]config.Plugin, names []string) map[string]config.Plugin {
	out := map[string]config.Plugin{}
	maps.Copy(out, entries)
	for _, name := range names {
		p, ok := out[name]
		if !ok {
			p.Mode = config.ModeAuto
		}
		p.Required = true
		out[name] = p
	}
	return out
}
