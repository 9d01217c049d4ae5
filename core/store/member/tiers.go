package member

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// tiers are the storage tiers of a member, which start before its session and stop after its node.
type tiers struct {
	node   node.Tiers
	ln     net.Listener
	server store.StageServer
	served chan struct{} // closed when the server has ended
	stops  []func(context.Context) error
}

// ledgerFolder is below the path of a tier.
const ledgerFolder = "mooncake-ledger"

// folderPatience is how long a store that starts waits for a master, which may name a folder for its storage tier.
const folderPatience = time.Second

// sharedFolder returns the settings of a store that has no storage tiers of its own, with the one that the master wants it to
// have, where there is one: keep says that this evicts nothing.
func sharedFolder(ctx context.Context, m store.Master, id model.ClientID, s config.Store, log *slog.Logger) (out config.Store, keep bool, err error) {
	if s.EnableOffload || s.GlobalSegmentSize == 0 {
		return s, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, folderPatience)
	defer cancel()
	reply, err := m.Ping(ctx, id, model.PingReport{})
	switch {
	case err != nil:
		log.Info("the master does not answer yet; if it names a folder for storage tiers (root_fs_dir), this store uses it from its next start on", "error", err)
		return s, false, nil
	case reply.Tiers == nil || reply.Tiers.Folder == "":
		return s, false, nil
	}
	folder := reply.Tiers.Folder
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return s, false, errs.WithHint(errs.Wrap(errs.FileOpenFail, "root_fs_dir of the master", err), "mount the file system of this folder on the machine of each store")
	}
	s.EnableOffload, s.Tier, s.SSDOffloadPath = true, "file", []string{folder}
	if s.OffloadSizeLimit = config.Size(reply.Tiers.Quota); s.OffloadSizeLimit == 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs(folder, &fs); err != nil {
			return s, false, errs.Wrap(errs.FileOpenFail, "root_fs_dir of the master", err)
		}
		s.OffloadSizeLimit = min(tierShare*s.GlobalSegmentSize, config.Size(float64(fs.Bavail)*float64(fs.Bsize)*freeShare))
	}
	return s, reply.Tiers.Keep, nil
}

// tierShare is the size of a tier in a shared folder whose size is not given, in sizes of the memory of its store; freeShare of what is
// free it takes at most.
const (
	tierShare = 10
	freeShare = 0.9
)

// openTiers starts the storage tiers that the configuration asks for, nil for none. If keep is true, they evict nothing.
func openTiers(ctx context.Context, s config.Store, keep bool, plugins config.Plugins, catalog *pluginhost.Catalog, d *doors.Doors, serves bool, log *slog.Logger) (t *tiers, err error) {
	if !s.EnableOffload {
		return nil, nil //nolint:nilnil // There are none.
	}
	const op = "store.enable_offload"
	if s.GlobalSegmentSize == 0 {
		log.Warn("a node without memory has nothing to keep on storage tiers, and opens none", "setting", op)
		return nil, nil //nolint:nilnil // There are none.
	}
	if !serves {
		return nil, errs.New(errs.NotSupported, op, "this process has no server for reads of storage tiers")
	}
	t = &tiers{node: node.DefaultTiers()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop(context.WithoutCancel(ctx)))
			t = nil
		}
	}()
	t.node.Staging, t.node.StagingTTL = uint64(s.OffloadBufferSize), s.OffloadBufferTTL
	t.node.Keep = keep
	t.node.High, t.node.Low, t.node.WriteBudget = s.OffloadHighWatermark, s.OffloadLowWatermark, uint64(s.TierWriteBudget)
	host := ports.Host(s.LocalHostname)
	if t.ln, err = ports.Listen(ctx, d, config.DoorOffload, "reads of storage tiers", ports.BindFor(host), s.OffloadPort, "offload_port"); err != nil {
		return t, err
	}
	_, port, err := net.SplitHostPort(t.ln.Addr().String())
	if err != nil {
		return t, err
	}
	t.node.Endpoint = net.JoinHostPort(ports.Concrete(host), port)
	id := plugin.ID{Kind: plugin.KindTier, Name: s.Tier}
	for _, o := range tiersOf(s) {
		spec := pluginhost.SpecOf(plugins.Get(id))
		if o.path != "" {
			if err = checkFolder("store.ssd_offload_path", o.path); err != nil {
				return t, err
			}
			spec.Config = maps.Clone(spec.Config)
			if spec.Config == nil {
				spec.Config = map[string]any{}
			}
			spec.Config["path"] = o.path
			if s.OffloadSizeLimit > 0 {
				spec.Config["capacity_bytes"] = uint64(s.OffloadSizeLimit)
			}
		} else if err = checkFolder("store.tier_state", o.state); err != nil {
			return t, err
		}
		if err = t.open(ctx, id, spec, o, s, plugins, catalog, log); err != nil {
			return t, errs.Wrap(errs.CodeOf(err), "storage tier "+o.name, err)
		}
	}
	return t, nil
}

// one is a tier to open: one folder of the plugin file, or another plugin.
type one struct{ name, path, state string }

func tiersOf(s config.Store) (all []one) {
	if s.Tier != "file" {
		return []one{{name: s.Tier, state: s.TierState}}
	}
	for _, p := range s.SSDOffloadPath {
		all = append(all, one{name: p, path: p, state: filepath.Join(p, ledgerFolder)})
	}
	return all
}

// checkFolder returns an error for a path that is no folder in which this process can write, as upstream's owner does.
func checkFolder(setting, path string) error {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, setting, format, args...), "make the folder, on the disk that is to keep objects, and give it to this process's user")
	}
	info, err := os.Lstat(path)
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return bad("%q is no absolute path without . and ..", path)
	case err != nil:
		return bad("%w", err)
	case info.Mode()&os.ModeSymlink != 0:
		return bad("%s is a symbolic link", path)
	case !info.IsDir():
		return bad("%s is no folder", path)
	}
	probe, err := os.CreateTemp(path, ".mooncake-probe-*")
	if err != nil {
		return bad("%w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// open starts one tier with the policy that ranks it.
func (t *tiers) open(ctx context.Context, id plugin.ID, spec pluginhost.Spec, o one, s config.Store, plugins config.Plugins, catalog *pluginhost.Catalog, log *slog.Logger) error {
	each, err := catalog.OpenTier(ctx, id, spec, pluginhost.TierOptions{})
	if err != nil {
		return err
	}
	if err := each.Start(ctx, pluginhost.HostOf(id, log)); err != nil {
		return err
	}
	t.stops = append(t.stops, each.Stop)
	ranks := plugin.ID{Kind: plugin.KindEvict, Name: s.TierEvictor}
	policy, err := catalog.OpenEvict(ctx, ranks, pluginhost.SpecOf(plugins.Get(ranks)), pluginhost.EvictOptions{})
	if err != nil {
		return err
	}
	if err := policy.Start(ctx, pluginhost.HostOf(ranks, log)); err != nil {
		return err
	}
	t.stops = append(t.stops, policy.Stop)
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return errs.Wrap(errs.FileWriteFail, "", err)
	}
	opened := &node.Tier{Tier: each, Name: o.name, Policy: policy}
	if err := node.OpenTier(ctx, opened, o.state, s.ClusterID, log); err != nil {
		return err
	}
	t.node.Each = append(t.node.Each, opened)
	return nil
}

// client returns as which client the last process used the tiers, zero for none.
func (t *tiers) client() (id model.ClientID) {
	if t != nil {
		for _, each := range t.node.Each {
			id = each.Client()
		}
	}
	return id
}

// settings returns the tiers for the configuration of a node.
func (t *tiers) settings() *node.Tiers {
	if t == nil {
		return nil
	}
	return &t.node
}

// serve begins to take reads of peers for a node.
func (t *tiers) serve(n *node.Node, open store.NewStageServer, log *slog.Logger) {
	if t == nil {
		return
	}
	t.server, t.served = open(n, log), make(chan struct{})
	go func() {
		defer close(t.served)
		if err := t.server.Serve(t.ln); err != nil {
			log.Error("peers cannot read the storage tiers of this node any more", "port", strconv.Quote(t.ln.Addr().String()), "error", err)
		}
	}()
}

// hush ends the reads of peers.
func (t *tiers) hush(ctx context.Context) {
	if t != nil && t.server != nil {
		t.server.Stop(ctx)
		<-t.served
		t.server = nil
	}
}

// stop stops the tiers.
func (t *tiers) stop(ctx context.Context) (err error) {
	if t == nil {
		return nil
	}
	t.hush(ctx)
	if t.ln != nil {
		_ = t.ln.Close() // The server has closed it as a rule.
	}
	for i := len(t.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, t.stops[i](ctx))
	}
	t.stops = nil
	return err
}
