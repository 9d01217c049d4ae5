package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
)

// wantedPort is a port that the role will listen on.
type wantedPort struct {
	key  string
	port int
}

func (e *exam) wantedPorts() []wantedPort {
	m, s := e.cfg.Master, e.cfg.Store
	var out []wantedPort
	if e.role == config.RoleMaster || e.role == config.RoleAll {
		out = append(out, wantedPort{"master.rpc_port", m.RPCPort}, wantedPort{"master.metrics_port", m.MetricsPort})
		if m.EnableHTTPMetadataServer {
			out = append(out, wantedPort{"master.http_metadata_server_port", m.HTTPMetadataServerPort})
		}
	}
	if e.role == config.RoleMetadata {
		out = append(out, wantedPort{"metadata.port", e.cfg.Metadata.Port})
	}
	if e.role == config.RoleStore || e.role == config.RoleAll {
		if s.EnableHTTPServer {
			out = append(out, wantedPort{"store.http_port", s.HTTPPort})
		}
		if _, port, err := net.SplitHostPort(s.LocalHostname); err == nil {
			if n, err := strconv.Atoi(port); err == nil {
				out = append(out, wantedPort{"store.local_hostname", n})
			}
		}
	}
	return out
}

// ports checks whether the ports of the role are free, and names the processes that have the others.
func (e *exam) ports(ctx context.Context) Result {
	wanted := e.wantedPorts()
	if len(wanted) == 0 {
		return ok("the role has none of a fixed number")
	}
	if !e.exists("proc/net/tcp") {
		return warn("/proc/net/tcp cannot be read", "whether the ports are free is not known", "mount /proc")
	}
	listening := map[int]string{} // port -> inode of the socket
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for port, inode := range e.listeners(file) {
			listening[port] = inode
		}
	}
	r := Result{Status: OK}
	free, own := []string{}, true
	for _, w := range wanted {
		inode, taken := listening[w.port]
		if !taken || w.port == 0 {
			free = append(free, fmt.Sprintf("%d (%s)", w.port, w.key))
			continue
		}
		pid, name := e.owner(ctx, inode)
		by := "a process that this user may not look at"
		if pid != "" {
			by = fmt.Sprintf("%s (process %s)", name, pid)
		}
		own = own && strings.HasPrefix(name, "mooncake")
		r.Details = append(r.Details, fmt.Sprintf("%d (%s) is in use by %s", w.port, w.key, by))
	}
	if len(r.Details) == 0 {
		r.Found = "free: " + strings.Join(free, ", ")
		return r
	}
	r.Found = fmt.Sprintf("%d of %s in use", len(r.Details), count(len(wanted), "port"))
	if own {
		r.Status, r.Why, r.Do = Warn, "the role seems to run already; a second one here cannot", "end it first, or choose other ports"
		return r
	}
	r.Status, r.Why, r.Do = Fail, "the role cannot listen and ends at once", "end the process (as root, `ss -ltnp` names it), or choose other ports"
	return r
}

// listeners reads the sockets that listen from /proc/net/tcp or tcp6, port to inode.
func (e *exam) listeners(file string) map[int]string {
	const listen = "0A"
	out := map[int]string{}
	for line := range strings.SplitSeq(e.text(file), "\n") {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			out[int(port)] = f[9]
		}
	}
	return out
}

// owner finds the process that has a socket, empty where it may not be seen.
func (e *exam) owner(ctx context.Context, inode string) (pid, name string) {
	want := "socket:[" + inode + "]"
	processes, _ := fs.ReadDir(e.Root, "proc") //nolint:errcheck // What cannot be seen has no owner.
	for _, p := range processes {
		if ctx.Err() != nil {
			return "", ""
		}
		if p.Name() < "0" || p.Name() > "9~" {
			continue
		}
		dir := "proc/" + p.Name()
		open, _ := fs.ReadDir(e.Root, dir+"/fd") //nolint:errcheck // Another user's process.
		for _, fd := range open {
			if to, err := fs.ReadLink(e.Root, dir+"/fd/"+fd.Name()); err == nil && to == want {
				return p.Name(), e.text(dir + "/comm")
			}
		}
	}
	return "", ""
}
