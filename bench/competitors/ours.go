package competitors

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// OursName and OursPython name this project in results.
const (
	OursName   = "ours"
	OursPython = "ours, Python"
)

// Way is how bytes travel between a client of ours and a store node of this machine.
type Way string

// The ways.
const (
	TCP          Way = "tcp"
	SharedMemory Way = "shm"
)

// environ are the settings of a process for a way.
func (w Way) environ() []string {
	setting := "auto"
	if w == TCP {
		setting = "off"
	}
	return []string{"MOONCAKE_STORE_SHARED_MEMORY=" + setting}
}

// Master is a running master, ours or a competitor's.
type Master struct {
	// Address is where clients reach it, host:port, or the etcd that says who leads.
	Address string
	cluster string // that they look for there
	proc    *cluster.Proc
	members []*cluster.Proc // processes that serve the clients besides: stores, and clients with memory
}

// pids are the processes that serve a client of the pool.
func (m *Master) pids() []int {
	var pids []int
	for _, p := range append([]*cluster.Proc{m.proc}, m.members...) {
		if p != nil {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// CPUTime is the processor time that its process has used.
func (m *Master) CPUTime() (time.Duration, error) { return m.proc.CPUTime() }

// RSS is the memory that it has resident, in bytes.
func (m *Master) RSS() (uint64, error) { return rss(m.proc.PID()) }

// OursMaster starts a master of this project, under upstream's name and with upstream's flags.
func (s *Scope) OursMaster(ctx context.Context, cpu int) (*Master, error) {
	return s.master(ctx, "master", cpu, filepath.Join(s.env.Programs, "mooncake_master"), "--metrics_host=127.0.0.1")
}

// master starts a program that understands upstream's flags, and waits until it accepts calls.
func (s *Scope) master(ctx context.Context, name string, cpu int, program string, flags ...string) (*Master, error) {
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	flags = append([]string{
		"--rpc_address=127.0.0.1", "--rpc_port=" + strconv.Itoa(ports[0]), "--metrics_port=" + strconv.Itoa(ports[1]),
	}, flags...)
	p, err := s.start(name, cpu, nil, program, flags...)
	if err != nil {
		return nil, err
	}
	return &Master{Address: local(ports[0]), proc: p}, listening(ctx, p, ports[0])
}

// OursStore starts a store node of this project with memory for the pool.
func (s *Scope) OursStore(ctx context.Context, m *Master, way Way, bytes int) error {
	p, err := s.start("store", -1, way.environ(), filepath.Join(s.env.Programs, "mooncake"), "store",
		"--global_segment_size", strconv.Itoa(bytes), "--master_server_address", m.Address, "--local_hostname", "127.0.0.1")
	if err != nil {
		return err
	}
	m.members = append(m.members, p)
	return until(ctx, p, "its memory is not mounted", func() bool { return strings.Contains(p.Tail(), "memory is mounted") })
}

// OursGo starts a client in Go that contributes segment bytes.
func (s *Scope) OursGo(ctx context.Context, m *Master, way Way, segment int) (*Driver, error) {
	return s.member(ctx, m, segment, "client in Go", -1, way.environ(), s.env.Self, "driver", "store", "--master", m.Address, "--segment", strconv.Itoa(segment))
}

// OursPython starts a client in Python with the package of this checkout.
func (s *Scope) OursPython(ctx context.Context, m *Master, way Way, cpu, segment int) (*Driver, error) {
	env := append(way.environ(), "PYTHONPATH="+filepath.Join(s.env.Root, "sdk", "python"))
	return s.python(ctx, "client in Python", m, cpu, segment, env)
}

// python starts driver.py.
func (s *Scope) python(ctx context.Context, name string, m *Master, cpu, segment int, env []string, args ...string) (*Driver, error) {
	if m.cluster != "" {
		env = append(env, "MC_STORE_CLUSTER_ID="+m.cluster)
	}
	args = append([]string{filepath.Join(s.env.Root, "bench", "drivers", "driver.py"), "--master", m.Address, "--segment", strconv.Itoa(segment)}, args...)
	return s.member(ctx, m, segment, name, cpu, env, s.env.Python, args...)
}

// member starts a driver that is a client of a pool, and contributes segment bytes to it.
func (s *Scope) member(ctx context.Context, m *Master, segment int, name string, cpu int, env []string, program string, args ...string) (*Driver, error) {
	d, err := s.driver(ctx, name, cpu, env, program, args...)
	if err != nil {
		return nil, err
	}
	d.pool = m
	if segment > 0 {
		m.members = append(m.members, d.proc)
	}
	return d, nil
}

// OursMasterClient starts a client of a master of ours that makes no puts and gets, only calls.
func (s *Scope) OursMasterClient(ctx context.Context, m *Master, cpu int) (*Driver, error) {
	return s.member(ctx, m, 0, "client of the master", cpu, nil, s.env.Self, "driver", "master", "--master", m.Address)
}

// WireName names bare TCP round trips in results.
const WireName = "bare TCP"

// Wire starts processes that only send the messages of puts and gets, the limit of what those take over TCP.
func (s *Scope) Wire(ctx context.Context) (*Driver, error) {
	return s.driver(ctx, WireName, -1, nil, s.env.Self, "driver", "wire")
}

// Memory starts a process that copies memory, the limit of what stays within a machine.
func (s *Scope) Memory(ctx context.Context) (*Driver, error) {
	return s.driver(ctx, "memcpy", -1, nil, s.env.Self, "driver", "memory")
}
