package machine

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/topology/recording"
	"github.com/mooncake-go/mooncake/core/topology/show"
)

// The formats that only topology has.
const (
	tree   output.Format = "tree"
	matrix output.Format = "matrix"
)

type topologyFlags struct {
	format             output.Format
	asJSON, asTree     bool
	devices            string
	filters, exclude   string
	custom             string
	root, recordToFile string
	file               string
}

// Topology makes the verb topology.
func Topology(env *command.Env) *cobra.Command {
	e := verbs{env}
	var f topologyFlags
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show NUMA nodes, RDMA devices and GPUs, how near they are to each other, and the resulting matrix",
		Long: `Reads the NUMA nodes, RDMA devices, network interfaces and GPUs of this machine from /sys, and
shows which devices a node would use for which memory: the topology matrix. It changes nothing
and needs no privileges. The settings of the configuration and the environment apply as they
do for a node (store.device_names, MC_MS_AUTO_DISC, MC_MS_FILTERS, ...). A flag replaces the
setting of its name.

The distances between a GPU and a device, nearest first:
  PIX   at most one PCIe switch
  PXB   several PCIe switches
  PHB   the PCIe host bridge of the CPU
  NODE  several host bridges of one NUMA node
  SYS   the interconnect between NUMA nodes, or an unknown distance

GPUs are numbered in the order of their PCI addresses, as the vendors' tools do.`,
		Example: `  mooncake topology
  mooncake topology --tree
  mooncake topology -o matrix > topo.json
  mooncake topology --device-name mlx5_0,mlx5_1 --json
  mooncake topology --record machine.txt
  mooncake topology --root machine.txt --tree`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.topology(f, cmd.Flags().Changed("output")) },
	}
	flags := cmd.Flags()
	output.Flag(flags, &f.format, "table, tree, json (all that is known), or matrix (the JSON that MC_CUSTOM_TOPO_JSON takes)",
		output.Table, tree, output.JSON, matrix)
	flags.BoolVar(&f.asJSON, "json", false, "the same as -o json")
	flags.BoolVar(&f.asTree, "tree", false, "the same as -o tree")
	flags.StringVar(&f.devices, "device-name", "", "RDMA devices to use, separated by commas; empty for all")
	flags.StringVar(&f.filters, "filters", "", "use only these devices, as MC_TE_FILTERS")
	flags.StringVar(&f.exclude, "exclude", "", "use none of these devices, as MC_TE_FILTERS_EXCLUDE")
	flags.StringVar(&f.custom, "custom-topo-json", "", "file with a matrix that replaces the machine's, as MC_CUSTOM_TOPO_JSON")
	flags.StringVar(&f.file, "config", "", "configuration file; its settings of devices and those of the environment apply as for a node")
	flags.StringVar(&f.root, "root", "", "folder with a copy of another machine's /sys, or a recording of it, to read instead of this machine's")
	flags.StringVar(&f.recordToFile, "record", "", "write the files that were read to this file and show nothing; - for standard output")
	return cmd
}

func (e verbs) topology(f topologyFlags, outputGiven bool) error {
	switch {
	case f.asJSON && f.asTree, outputGiven && (f.asJSON || f.asTree):
		return command.Usagef("-o, --json and --tree say the same thing; give one of them")
	case f.asJSON:
		f.format = output.JSON
	case f.asTree:
		f.format = tree
	}
	root, closer, err := machineRoot(f.root)
	if err != nil {
		return err
	}
	defer closer.Close()
	if f.recordToFile != "" {
		return e.recordMachine(root, f.recordToFile)
	}
	m, err := topology.Discover(root)
	if err != nil {
		return err
	}
	choice, err := e.chooseDevices(f, m)
	if err != nil {
		return err
	}
	switch f.format {
	case tree:
		err = show.Tree(e.Stdout, m, choice)
	case output.JSON:
		return show.JSON(e.Stdout, m, choice)
	case matrix:
		err = show.Matrix(e.Stdout, choice)
	default:
		err = show.Table(e.Stdout, m, choice)
	}
	for _, w := range slices.Concat(m.Warnings, choice.Warnings) {
		fmt.Fprintln(e.Stderr, "warning:", w)
	}
	return err
}

// chooseDevices chooses devices as a node with this configuration would. Flags take precedence.
func (e verbs) chooseDevices(f topologyFlags, m topology.Machine) (topology.Choice, error) {
	cfg, err := e.Config(config.RoleStore, f.file)
	if err != nil {
		return topology.Choice{}, err
	}
	s := cfg.Store
	if f.devices != "" {
		s.DeviceNames, s.AutoDiscovery = topology.SplitNames(f.devices), "auto"
	}
	if f.filters != "" {
		s.DeviceAllow = topology.SplitNames(f.filters)
	}
	if f.exclude != "" {
		s.DeviceExclude = topology.SplitNames(f.exclude)
	}
	if f.custom != "" {
		s.TopologyFile = f.custom
	}
	o, err := topology.FromConfig(s)
	if err != nil {
		return topology.Choice{}, err
	}
	return topology.Choose(m, o)
}

// machineRoot opens the folder or recording that --root names, or this machine without --root.
func machineRoot(name string) (fs.FS, io.Closer, error) {
	if name == "" {
		return os.DirFS("/"), io.NopCloser(nil), nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, command.Usage(fmt.Errorf("--root: %w", err))
	}
	if info.IsDir() {
		// A copied tree may hold links that lead out of it.
		root, err := os.OpenRoot(name)
		if err != nil {
			return nil, nil, fmt.Errorf("--root: %w", err)
		}
		return root.FS(), root, nil
	}
	if !info.Mode().IsRegular() {
		return nil, nil, command.Usagef("--root: %q is neither a folder nor a file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("--root: %w", err)
	}
	defer file.Close()
	r, err := recording.Read(file)
	if err != nil {
		return nil, nil, command.Usage(fmt.Errorf("--root %s: %w", name, err))
	}
	return r.FS(), io.NopCloser(nil), nil
}

// recordMachine writes a recording of a machine.
func (e verbs) recordMachine(root fs.FS, name string) error {
	m, r, err := topology.Record(root)
	if err != nil {
		return err
	}
	if name == "-" {
		_, err := r.WriteTo(e.Stdout)
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	size, err := r.WriteTo(file)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	fmt.Fprintf(e.Stdout, "%s: %d bytes of text without addresses and serial numbers (NUMA nodes: %d, RDMA devices: %d, network interfaces: %d, GPUs: %d)\n",
		name, size, len(m.Nodes), len(m.NICs), len(m.Nets), len(m.GPUs))
	return nil
}
