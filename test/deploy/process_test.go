package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

const patience = time.Minute

// site maps the addresses of a cluster to loopback: a free port for each port, and this host for
// every host.
type site struct {
	hosts []string
	ports map[string]string
	pod   string // the name of the next one
	tls   string // the folder in place of tlsFolder, empty for none
}

// tlsFolder is where containers have their certificates.
const tlsFolder = "/etc/mooncake/tls"

var number = regexp.MustCompile(`\b(50051|9003|8080|8088|9300|2379)\b`)

func newSite(t *testing.T, hosts ...string) *site {
	s := &site{hosts: hosts, ports: map[string]string{}}
	s.move(t, "50051", "9003", "8080", "8088", "9300", "2379")
	return s
}

// move gives ports to the next container, which has an address of its own in the cluster.
func (s *site) move(t *testing.T, ports ...string) {
	t.Helper()
	for _, given := range ports {
		s.ports[given] = freePort(t)
	}
}

// addresses replaces ports, and hosts that have a port: the name of a host alone may be a verb.
func (s *site) addresses(text string) string {
	for _, h := range s.hosts {
		text = regexp.MustCompile(regexp.QuoteMeta(h)+`:(\d)`).ReplaceAllString(text, "127.0.0.1:${1}")
	}
	if s.tls != "" {
		text = strings.ReplaceAll(text, tlsFolder, s.tls)
	}
	return number.ReplaceAllStringFunc(text, func(p string) string { return s.ports[p] })
}

func (s *site) local(text string) string {
	if slices.Contains(s.hosts, text) {
		return "127.0.0.1"
	}
	return s.addresses(text)
}

func freePort(t *testing.T) string {
	t.Helper()
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	return strconv.Itoa(ports[0])
}

// process is a program that runs until the test ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended
	mu   sync.Mutex
	out  bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs a command line of a container: the image's program under the given name.
func start(t *testing.T, line, env []string, attr *syscall.SysProcAttr) *process {
	t.Helper()
	if len(line) > 2 && line[1] == "-m" {
		line = append([]string{strings.TrimPrefix(line[2], "mooncake.")}, line[3:]...) // As the package's module does.
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	name := filepath.Join("/usr/bin", filepath.Base(line[0]))
	switch {
	case filepath.Base(name) == "etcd":
		name = etcd
	case attr == nil:
		name = filepath.Join(root, name)
	}
	cmd := exec.CommandContext(ctx, name, line[1:]...)
	cmd.Env, cmd.SysProcAttr, cmd.Dir = append([]string{"PATH=/usr/bin"}, env...), attr, "/"
	cmd.WaitDelay = 10 * time.Second
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v\n%s", line, p.log())
		}
	})
	return p
}

// stop ends it as a container runtime does.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
		assert.NoError(t, p.err, p.log())
	case <-time.After(patience):
		t.Errorf("%v does not end", p.cmd.Args)
	}
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may have ended.
	<-p.done
}

// passes waits until a probe succeeds.
func (s *site) passes(t *testing.T, p *process, c container, pr *probe) {
	t.Helper()
	if pr == nil {
		return
	}
	ask := func() error { return s.ask(t.Context(), c, pr, p.cmd.Env) }
	var last error
	require.Eventually(t, func() bool {
		select {
		case <-p.done:
			last = fmt.Errorf("it ended: %w\n%s", p.err, p.log())
			return true
		default:
			last = ask()
			return last == nil
		}
	}, patience, 20*time.Millisecond, "%s: %v", c.Name, pr)
	require.NoError(t, last, c.Name)
}

func (s *site) ask(ctx context.Context, c container, pr *probe, env []string) error {
	limit := time.Second
	if pr.Exec != nil {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if pr.Exec != nil {
		cmd := exec.CommandContext(ctx, filepath.Join(root, pr.Exec.Command[0]), pr.Exec.Command[1:]...)
		cmd.Env = append(env, "MOONCAKE_MASTER=127.0.0.1:"+s.local("50051"), "MOONCAKE_MASTER_METRICS_PORT="+s.local("9003")) // The ports are others here.
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	if pr.TCPSocket != nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+s.probed(c, pr.TCPSocket.Port))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	_, err := get(ctx, "http://127.0.0.1:"+s.probed(c, pr.HTTPGet.Port)+pr.HTTPGet.Path)
	return err
}

// probed returns the local port for one of a container, by its name or number.
func (s *site) probed(c container, which string) string {
	for _, p := range c.Ports {
		if p.Name == which {
			which = fmt.Sprint(p.ContainerPort)
		}
	}
	return s.local(which)
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return string(b), err
}

// isRoot reports whether a test may change the root folder.
func isRoot() bool { return os.Geteuid() == 0 }
