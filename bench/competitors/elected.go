package competitors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// Elected are two masters of which etcd elects one.
type Elected struct {
	// Master is where clients find the one that leads.
	Master
	procs [2]*cluster.Proc
	ports [2]int // a port is open while its master leads
}

// Etcd starts the etcd of this project, unchanged, and returns its address, host:port.
func (s *Scope) Etcd(ctx context.Context) (string, error) {
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(s.env.Folder, "etcd")
	if err != nil {
		return "", err
	}
	clients, peers := "http://"+local(ports[0]), "http://"+local(ports[1])
	p, err := s.start("etcd", -1, nil, filepath.Join(s.env.Programs, "mooncake_etcd"), "--data-dir", folder,
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return "", err
	}
	return local(ports[0]), listening(ctx, p, ports[0])
}

// OursElected starts masters of this project.
func (s *Scope) OursElected(ctx context.Context, etcd, name string) (*Elected, error) {
	return s.elected(ctx, "master", filepath.Join(s.env.Programs, "mooncake_master"), etcd, name)
}

// UpstreamElected starts the wheel's. ErrNoUpstream where there is no wheel.
func (s *Scope) UpstreamElected(ctx context.Context, etcd, name string) (*Elected, error) {
	if why := s.env.upstreamReason(); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoUpstream, why)
	}
	return s.elected(ctx, "upstream's master", s.env.upstreamFile("mooncake_master"), etcd, name)
}

// elected starts two masters as the cluster of a name, and waits until one of them leads. Both programs take the same
// flags.
func (s *Scope) elected(ctx context.Context, who, program, etcd, name string) (*Elected, error) {
	e := &Elected{Master: Master{Address: "etcd://" + etcd, cluster: name}}
	ports, err := cluster.FreePorts(4)
	if err != nil {
		return nil, err
	}
	for i := range e.procs {
		e.ports[i] = ports[i]
		e.procs[i], err = s.start(fmt.Sprintf("%s %d", who, i+1), -1, nil, program, "--enable_ha=true", "--etcd_endpoints="+etcd, "--cluster_id="+name,
			"--rpc_address=127.0.0.1", "--rpc_port="+strconv.Itoa(e.ports[i]), "--metrics_host=127.0.0.1", "--metrics_port="+strconv.Itoa(ports[2+i]))
		if err != nil {
			return nil, err
		}
	}
	e.members = e.procs[:]
	return e, until(ctx, e.procs[0], "no master leads", func() bool { return e.leader() >= 0 })
}

// leader is the number of the master whose port is open, below 0 for none.
func (e *Elected) leader() int {
	for i, port := range e.ports {
		if !cluster.Vacant(port) {
			return i
		}
	}
	return -1
}

// KillLeader ends the process of the master that leads with SIGKILL, and returns when that was.
func (e *Elected) KillLeader() (time.Time, error) {
	i := e.leader()
	if i < 0 {
		return time.Time{}, fmt.Errorf("%s and %s: neither leads", e.procs[0].Name, e.procs[1].Name)
	}
	at := time.Now()
	e.procs[i].Kill()
	return at, nil
}
