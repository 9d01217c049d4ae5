package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// unreachable is a failure for a role that needs the other process, and a warning if no setting says
// that it should run.
func (e *exam) unreachable(found, why, do string) Result {
	if e.role == config.RoleAll {
		return warn(found, why, do)
	}
	return fail(found, why, do)
}

const withoutMaster = "nodes wait for it at the start for a while, and clients get errors"

// master asks the master whether it serves. Of several masters it asks the leader.
func (e *exam) master(ctx context.Context) Result {
	addr, leads := e.cfg.Store.MasterServerAddress, ""
	if a, err := masteraddr.Parse(addr); err == nil && len(a.Masters) != 1 {
		leader, err := e.Leader(ctx, e.cfg.Store)
		switch {
		case errs.Is(err, errs.UnavailableInCurrentStatus):
			return e.unreachable(fmt.Sprintf("no master leads cluster %s, says %s", e.cfg.Store.ClusterID, addr), withoutMaster,
				"start one (mooncake master --enable_ha) with this cluster_id and etcd, or correct store.cluster_id")
		case errs.Is(err, errs.RPCFail):
			return e.unreachable(fmt.Sprintf("none of %s serves: %v", addr, short(ctx, err)), withoutMaster, "start them (mooncake master --enable_ha), or correct store.master_server_address")
		case err != nil:
			return e.unreachable(fmt.Sprintf("who leads is not known, %s does not answer: %v", addr, short(ctx, err)), "members go on with the leader that they know; new ones wait",
				"start etcd, or correct store.master_server_address")
		}
		addr, leads = leader, "leads and "
	}
	version, err := e.Master(ctx, addr)
	if err != nil {
		reason := strings.TrimPrefix(short(ctx, err).Error(), "master "+addr+": ")
		return e.unreachable(fmt.Sprintf("%s: %s", addr, reason), withoutMaster,
			"start it (mooncake master), or correct store.master_server_address; check the firewall between")
	}
	return ok("%s %sserves, version %s", addr, leads, version)
}

// metadata asks the metadata service.
func (e *exam) metadata(ctx context.Context) Result {
	server := e.cfg.Store.MetadataServer
	if server == "P2PHANDSHAKE" {
		return ok("nodes ask each other, there is no service")
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ok("%s is not looked at", scheme(server))
	}
	if err := e.Metadata(ctx, server); err != nil {
		return e.unreachable(fmt.Sprintf("%s: %v", u.Redacted(), short(ctx, err)), "nodes cannot publish themselves or find each other",
			"start it (mooncake metadata, or the master with --enable_http_metadata_server), or correct store.metadata_server")
	}
	return ok("%s answers", u.Redacted())
}

// scheme names a service without what may be a password.
func scheme(server string) string {
	before, _, _ := strings.Cut(server, "://")
	return "a service of the kind " + before
}

// short drops what wraps the reason, and says plainly that time ran out.
func short(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no answer in time")
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// plugins looks at the folders that plugin binaries are started from: one that others can
// write to is refused, since whoever writes there would run code as this user.
func (e *exam) plugins(context.Context) Result {
	dirs := append([]string(nil), e.cfg.Plugins.Dirs...)
	given := len(dirs)
	if e.Home != "" {
		dirs = append(dirs, e.Home+"/mooncake/plugins")
	}
	dirs = append(dirs, "/usr/lib/mooncake/plugins")
	r := Result{Status: OK}
	there := 0
	for i, dir := range dirs {
		info, err := fs.Stat(e.Root, strings.Trim(dir, "/"))
		bad, do := "", ""
		status := Fail
		switch {
		case errors.Is(err, fs.ErrNotExist) && i >= given:
			continue
		case err != nil:
			status, bad, do = Warn, "cannot be read", "create it, or take it out of plugins.dirs"
		case !info.IsDir():
			bad, do = "is not a folder", "correct plugins.dirs"
		case info.Mode().Perm()&0o022 != 0:
			bad, do = fmt.Sprintf("can be changed by others (mode %#o)", info.Mode().Perm()), "chmod go-w "+dir
		case !e.owns(info):
			bad, do = "belongs to another user", "chown root "+dir
		default:
			there++
			continue
		}
		r.Details = append(r.Details, dir+" "+bad)
		if r.Status != Fail {
			r.Status, r.Do = status, do
			r.Why = "plugins in it are not started"
		}
	}
	r.Found = fmt.Sprintf("%s in order", count(there, "folder"))
	return r
}

// owns reports whether a folder is root's or this user's. A recorded machine has no owners.
func (e *exam) owns(info fs.FileInfo) bool {
	st, known := info.Sys().(*syscall.Stat_t)
	return !known || st.Uid == 0 || int(st.Uid) == e.UID
}
