package chaos

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// unable says why this machine cannot have a fault.
type unable struct{ error }

// Unwrap returns the reason.
func (u *unable) Unwrap() error { return u.error }

// etcd is an etcd of one member, which elects one of several masters.
type etcd struct {
	address string // host:port for clients
	peers   string
	folder  string
	opts    Options
	own     config.Security // the files of its certificate; the zero value for plaintext
	proc    *cluster.Proc
}

// newEtcd starts an etcd that keeps its data below folder. An *unable says that this machine has none.
func newEtcd(opts Options, folder string, secure *cluster.Certificates) (*etcd, error) {
	if _, err := exec.LookPath(opts.Etcd); err != nil {
		return nil, &unable{fmt.Errorf("several masters need the program etcd, see --etcd: %w", err)}
	}
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	e := &etcd{address: "127.0.0.1:" + strconv.Itoa(ports[0]), peers: "127.0.0.1:" + strconv.Itoa(ports[1]), folder: filepath.Join(folder, "etcd"), opts: opts, own: secure.Of(security.RoleMaster)}
	return e, e.start()
}

// start starts the process, also again, and does not wait for it.
func (e *etcd) start() (err error) {
	scheme, files := "http://", []string(nil)
	if e.own.On() {
		scheme = "https://"
		for _, kind := range []string{"--", "--peer-"} {
			files = append(files, kind+"trusted-ca-file", e.own.CA, kind+"cert-file", e.own.Cert, kind+"key-file", e.own.Key, kind+"client-cert-auth")
		}
	}
	at, peers := scheme+e.address, scheme+e.peers
	e.proc, err = cluster.Start(cluster.Spec{Name: "etcd", Program: e.opts.Etcd, Env: e.opts.Environ, Args: append([]string{
		"--data-dir", e.folder, "--listen-client-urls", at, "--advertise-client-urls", at,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
	}, files...)})
	return err
}

// errNoLeader says that no master serves when a fault begins.
var errNoLeader = errors.New("no master serves")
