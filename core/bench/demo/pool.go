package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// readyTimeout bounds how long one process may take to serve.
const readyTimeout = 30 * time.Second

// pool is the master and the stores.
type pool struct {
	opts   Options
	dir    string // for the configuration file and the storage tiers, removed at the end
	rpc    string
	admin  string
	meta   string
	master *cluster.Proc
	stores []*cluster.Proc
	// transport is what the transport is set to, beside its own defaults.
	transport map[string]string
	// security is what the processes of a role are set to, nil where the pool is plaintext; http is for what the demo itself
	// asks.
	security *cluster.Certificates
	http     *http.Client
	// masterCommand starts the master, and starts it again after it was killed.
	masterCommand []string
	tierSize      uint64
	note          string // for the user, empty for none
	log           *prefixer
}

// newPool starts a master and the stores and waits until all memory is mounted. The storage tiers, where there are any, have
// the given size in bytes each.
func newPool(ctx context.Context, opts Options, tierSize uint64) (*pool, error) {
	base, note, err := opts.folder(tierSize)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, "mooncake-demo-")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	ports, err := cluster.FreePorts(3)
	if err != nil {
		os.RemoveAll(dir) //nolint:errcheck // nothing is in it
		return nil, err
	}
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	p := &pool{
		opts: opts, dir: dir, tierSize: tierSize, note: note, rpc: at(0), admin: at(1), meta: "http://" + at(2) + "/metadata",
		log: &prefixer{out: opts.Log},
	}
	if err := p.makeCertificates(); err != nil {
		p.close()
		return nil, err
	}
	p.http = p.security.Admin()
	p.masterCommand = p.masterArgs(ports)
	if err := p.startMaster(ctx); err != nil {
		p.close()
		return nil, err
	}
	for i := range opts.Stores {
		if err := p.startStore(i); err != nil {
			p.close()
			return nil, err
		}
	}
	if err := p.waitMounted(ctx, opts.Stores); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// masterArgs makes the master's settings. A watermark of 1 leaves eviction to the puts that need space, so that the
// pool is exactly as large as it says.
func (p *pool) masterArgs(ports []int) []string {
	args := []string{"master", "--plugin_dir", strings.Join(p.opts.PluginDirs, ",")}
	for _, pair := range [][2]string{
		{"master.rpc_address", "127.0.0.1"}, {"master.rpc_port", strconv.Itoa(ports[0])},
		{"master.metrics_host", "127.0.0.1"}, {"master.metrics_port", strconv.Itoa(ports[1])},
		{"master.enable_http_metadata_server", "true"}, {"master.http_metadata_server_host", "127.0.0.1"}, {"master.http_metadata_server_port", strconv.Itoa(ports[2])},
		{"master.lease_ttl", p.opts.LeaseTTL.String()}, {"master.eviction_high_watermark_ratio", "1"},
		{"master.client_ttl", p.opts.clientTTL().String()}, {"master.evictor", p.opts.Evictor}, {"master.allocator", p.opts.Allocator},
		{"plugins.evict." + p.opts.Evictor + ".mode", p.opts.Mode}, {"plugins.alloc." + p.opts.Allocator + ".mode", p.opts.Mode},
		{"master.enable_offload", strconv.FormatBool(p.opts.Tiers)},
	} {
		args = append(args, p.own(pair[0], pair[1])...)
	}
	return append(args, SettingsArgs(p.opts.Config, p.opts.Set)...)
}

// own are the flags for a setting of the demo, none if the user has set it.
func (p *pool) own(key, value string) []string {
	if slices.ContainsFunc(p.opts.Set, func(pair string) bool { return strings.HasPrefix(pair, key+"=") }) {
		return nil
	}
	return []string{"--set", key + "=" + value}
}

// SettingsArgs are the flags that pass a user's own settings on to a process, after those of the demo.
func SettingsArgs(file string, set []string) []string {
	var args []string
	if file != "" {
		args = append(args, "--config", file)
	}
	for _, pair := range set {
		args = append(args, "--set", pair)
	}
	return args
}

func (p *pool) start(role security.Role, name string, args ...string) (*cluster.Proc, error) {
	return cluster.Start(cluster.Spec{
		Name: name, Program: p.opts.Program, Args: args, Env: p.security.Environ(p.opts.Environ, role), Log: p.log.named(name),
	})
}

func (p *pool) startMaster(ctx context.Context) error {
	proc, err := p.start(security.RoleMaster, "master", p.masterCommand...)
	if err != nil {
		return err
	}
	p.master = proc
	return cluster.Poll(proc, readyTimeout, func() error {
		_, err := p.get(ctx, "/health")
		return err
	})
}

func (p *pool) startStore(i int) error {
	name := "store-" + strconv.Itoa(i+1)
	args := []string{"store",
		"--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1",
		"--protocol", p.opts.Protocol, "--transports", p.opts.Protocol,
		"--plugin_dir", strings.Join(p.opts.PluginDirs, ","),
		"--global_segment_size", strconv.FormatUint(p.opts.segmentSize(), 10), "--keep", "off"}
	transport := "plugins.transport." + p.opts.Protocol
	args = append(args, p.own(transport+".mode", p.opts.TransportMode)...)
	args = append(args, p.own(transport+".required", "true")...)
	for _, key := range slices.Sorted(maps.Keys(p.transport)) {
		args = append(args, p.own(transport+".config."+key, p.transport[key])...)
	}
	if p.opts.Tiers {
		folder := filepath.Join(p.dir, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		args = append(args, "--enable_offload", "--ssd_offload_path", folder,
			"--offload_size_limit", strconv.FormatUint(p.tierSize, 10), "--offload_buffer_size", strconv.FormatUint(p.opts.tierBuffer(), 10))
		if p.opts.TierBytes > 0 { // All of it is to be used.
			args = append(args, "--offload_high_watermark", "0.99", "--offload_low_watermark", "0.98")
		}
	}
	proc, err := p.start(security.RoleStore, name, append(args, SettingsArgs(p.opts.Config, p.opts.Set)...)...)
	if err != nil {
		return err
	}
	p.stores = append(p.stores, proc)
	return nil
}

// waitMounted waits until the master knows n segments.
func (p *pool) waitMounted(ctx context.Context, n int) error {
	// Any of the processes may be the one that does not come up; the first one that ended
	// is the news.
	watch := p.stores[len(p.stores)-1]
	return cluster.Poll(watch, readyTimeout, func() error {
		for _, s := range p.stores {
			select {
			case <-s.Done():
				return fmt.Errorf("%s has ended; its last log lines:\n%s", s.Name, s.Tail())
			default:
			}
		}
		text, err := p.get(ctx, "/get_all_segments")
		if err != nil {
			return err
		}
		if have := len(strings.Fields(text)); have < n {
			return fmt.Errorf("%d of %d stores are mounted", have, n)
		}
		return nil
	})
}

// get asks the admin port.
func (p *pool) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return string(body), nil
}

// counter reads one metric without labels from the master.
func (p *pool) counter(ctx context.Context, name string) (uint64, error) {
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			return uint64(f), err
		}
	}
	return 0, errors.Join(fmt.Errorf("the master has no metric %s", name), lines.Err())
}

// close stops everything: stores first, so that they can say goodbye to the master.
func (p *pool) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if p.http != nil {
		p.http.CloseIdleConnections()
	}
	var wg sync.WaitGroup
	errList := make([]error, len(p.stores)+1)
	for i, s := range p.stores {
		wg.Go(func() { errList[i] = s.Stop(ctx) })
	}
	wg.Wait()
	if p.master != nil {
		errList[len(p.stores)] = p.master.Stop(ctx)
	}
	return errors.Join(errors.Join(errList...), os.RemoveAll(p.dir))
}

// prefixer puts the name of its process before every line.
type prefixer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *prefixer) named(name string) io.Writer {
	if p.out == nil {
		return nil
	}
	return &prefixed{p: p, name: []byte(name + " | ")}
}

type prefixed struct {
	p    *prefixer
	name []byte
	part []byte
}

// maxLogLine bounds a line without an end, in bytes.
const maxLogLine = 64 << 10

func (w *prefixed) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		i := bytes.IndexByte(w.part, '\n')
		if i < 0 && len(w.part) < maxLogLine {
			return len(b), nil
		}
		if i < 0 {
			i = len(w.part) - 1
		}
		line := append(append([]byte(nil), w.name...), w.part[:i+1]...)
		w.part = append(w.part[:0], w.part[i+1:]...)
		w.p.mu.Lock()
		_, err := w.p.out.Write(line)
		w.p.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}
