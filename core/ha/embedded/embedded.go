// Package embedded runs the etcd that elects one of several masters: each master has one etcd member, a
// process of its own that ends with the master.
//
// An etcd member that has lost its data must not come back under its old identity: it would have forgotten
// what it has voted for. So a master whose folder is empty asks the other machines first. It begins a new
// cluster only when all of them have begun one with it or are about to, and otherwise replaces its member in
// the cluster that is there, which takes a majority of the others.
package embedded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// heartbeat and election are the timers of etcd. A lease is at least one and a half elections.
	heartbeat, election = 100 * time.Millisecond, 500 * time.Millisecond
	// leastBackOff and mostBackOff bound the pause before an etcd member that ended is started again; one that
	// ran for steady begins with the least again.
	leastBackOff, mostBackOff, steady = 100 * time.Millisecond, 10 * time.Second, 30 * time.Second
	// askPause is the pause between two rounds of questions to other masters, remindInterval that between two
	// log lines that say the same.
	askPause, remindInterval = 200 * time.Millisecond, time.Minute
	// portPatience is how long a port may be in use at the start: by an etcd member that just ends.
	portPatience = 2 * time.Second
	// callTimeout bounds a call to an etcd member.
	callTimeout = 2 * time.Second
	// stopTimeout is how long an etcd member may take to end in order.
	stopTimeout = 5 * time.Second
)

// State is what the etcd member of this master is doing.
type State string

// The states.
const (
	Waiting    State = "waiting"    // for other masters, or for a majority of them
	Running    State = "running"    // the process runs
	Restarting State = "restarting" // the process has ended and starts again
	Stopped    State = "stopped"
)

// Config is the configuration of a Server.
type Config struct {
	Cluster string
	Members []config.HAMember
	Self    config.HAMember // one of Members
	// Bind is the address of this machine on which the ports are opened; a name is resolved.
	Bind string
	// Folder is the member's own; it is made if need be.
	Folder string
	// Program is an etcd, see Program.
	Program string
	// CAFile, CertFile and KeyFile make all connections TLS, with certificates on both sides; all or none. PEM.
	// TLS are the same files, nil for none.
	CAFile, CertFile, KeyFile string
	TLS                       *tls.Config
	Log                       *slog.Logger
	// Fail receives the error that ends the member for good. It is called once at most.
	Fail func(error)
}

// Server keeps an etcd member running.
type Server struct {
	Config
	bind  string // an IP address
	lock  *os.File
	peers *asker
	conn  *etcdconn.Conn // to this machine's member
	all   *etcdconn.Conn // to the others

	state  atomic.Pointer[State]
	cancel context.CancelFunc
	done   chan struct{}

	why string // of the last log line about waiting, and its time; of run
	at  time.Time
}

// New makes a server. It does nothing before Start. InvalidParams.
func New(cfg Config) (*Server, error) {
	s := &Server{Config: cfg, peers: newAsker(cfg.TLS), done: make(chan struct{})}
	s.become(Stopped)
	var others []string
	for _, m := range cfg.Members {
		if m.Name != cfg.Self.Name {
			others = append(others, s.url(m.Host, m.Client))
		}
	}
	o := etcdconn.Options{Service: "embedded etcd", TLS: cfg.TLS, Timeout: callTimeout, Logger: cfg.Log}
	var err error
	if s.conn, err = etcdconn.New(s.Endpoint(), o); err != nil {
		return nil, err
	}
	s.all, err = etcdconn.New(strings.Join(others, ";"), o)
	return s, err
}

// Endpoint is where this master finds its own etcd member.
func (s *Server) Endpoint() string {
	if s.TLS == nil {
		return s.url(s.Bind, s.Self.Client)
	}
	return s.url(s.Self.Host, s.Self.Client) // What the certificate is for.
}

func (s *Server) url(host string, port int) string {
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(ports.Plain(host), strconv.Itoa(port))
}

// peerURL is where other etcd members reach one.
func (s *Server) peerURL(m config.HAMember) string { return s.url(m.Host, m.Peer) }

// State is safe for concurrent use.
func (s *Server) State() State { return *s.state.Load() }

func (s *Server) become(st State) { s.state.Store(&st) }

// takeFolder makes the folder and locks it.
func (s *Server) takeFolder() error {
	err := os.MkdirAll(s.Folder, 0o700)
	if err == nil {
		s.lock, err = os.OpenFile(filepath.Join(s.Folder, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return errs.WithHint(errs.Wrap(errs.InvalidParams, "folder of the etcd member", err), "give a folder on a disk of this machine with --ha_data_dir")
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.releaseFolder()
		return errs.WithHint(errs.New(errs.InvalidParams, "folder of the etcd member", "another master of this machine uses %s", s.Folder),
			"each master has a name of its own in ha_members (--ha_member), and a folder of its own")
	}
	return nil
}

func (s *Server) releaseFolder() {
	if s.lock != nil {
		_ = s.lock.Close() // It ends the lock, too.
		s.lock = nil
	}
}

// data is where etcd keeps its data.
func (s *Server) data() string { return filepath.Join(s.Folder, "etcd") }

// empty reports whether the member has no data. What a member leaves that ended before it had a log is none, and is
// removed.
func (s *Server) empty() (bool, error) {
	logs, err := os.ReadDir(filepath.Join(s.data(), "member", "wal"))
	if len(logs) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, os.RemoveAll(s.data())
}

// waits notes why the member does not run yet, with a log line now and then.
func (s *Server) waits(why string) {
	s.become(Waiting)
	if why != s.why || time.Since(s.at) >= remindInterval {
		s.why, s.at = why, time.Now()
		s.Log.Warn("the etcd member of this master waits", "for", why)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// resolve returns the IP address of the name of this machine.
func resolve(ctx context.Context, host string) (string, error) {
	host = ports.Plain(host)
	if ip := net.ParseIP(host); ip != nil {
		return host, nil
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", errs.WithHint(errs.Wrap(errs.InvalidParams, "address of the etcd member", err), "give an address of this machine with --rpc_address")
	}
	return found[0], nil
}

var errNamesake = func(s *Server, at string) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "etcd member "+s.Self.Name, "another master has this name: its etcd member answers at %s", at),
		"each master has a name of its own in ha_members, see --ha_member and --rpc_address; stop the other one if this one takes its place")
}

// listen opens a port that may be in use for a moment longer.
func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	for by := time.Now().Add(portPatience); ; {
		ln, err := ports.Probe(ctx, "etcd member", host, port, "ha_members")
		if err == nil || !time.Now().Before(by) || ctx.Err() != nil {
			return ln, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// Program returns the path of the program that is an etcd member: the given one, or mooncake_etcd beside this
// program or in PATH.
func Program(given string) (string, error) {
	name := "mooncake_etcd"
	if given != "" {
		name = given
	} else if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); executable(beside) {
			return beside, nil
		}
	}
	path, err := lookPath(name)
	if err != nil {
		return "", errs.WithHint(errs.Wrap(errs.InvalidParams, "embedded etcd", fmt.Errorf("the program of etcd members is missing: %w", err)),
			"'make build' makes mooncake_etcd beside mooncake; --ha_member_program /usr/bin/etcd takes another etcd, of release 3.5 or later; --ha_backend_type etcd uses one that runs elsewhere")
	}
	return path, nil
}
