package s3_test

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	s3 "example.com/tier-s3"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// host is a plugin.Host that discards all.
type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

// subject is a started tier with a region.
type subject struct {
	tier.Tier
	t   *testing.T
	mem []byte
}

// refused requires that a tier does not start, with a code and with a word of help.
func refused(t *testing.T, c *s3.Config, code errs.Code, help string) {
	t.Helper()
	x, err := s3.Factory().New(c)
	check(t, err)
	if err = x.Start(t.Context(), host{}); errs.CodeOf(err) != code || !strings.Contains(err.Error(), help) {
		t.Errorf("got %v, want %v and %q", err, code, help)
	}
	check(t, x.Stop(context.Background()))
}

func open(t *testing.T, c *s3.Config) subject {
	t.Helper()
	x, err := s3.Factory().New(c)
	check(t, err)
	check(t, x.Start(t.Context(), host{}))
	t.Cleanup(func() { check(t, x.Stop(context.Background())) })
	mem := make([]byte, 64<<10)
	check(t, x.Register(t.Context(), tier.Region{ID: 1, Mem: mem, FD: -1}))
	return subject{x, t, mem}
}

// do carries out an operation.
func (s subject) do(o tier.Op) tier.Completion {
	s.t.Helper()
	n, err := s.Submit([]tier.Op{o})
	check(s.t, err)
	done := make([]tier.Completion, 2)
	if k, err := s.Reap(s.t.Context(), done); n != 1 || k != 1 || err != nil {
		s.t.Fatal(n, k, err)
	}
	return done[0]
}

// record is that of a key, whose value is all of the region.
func (s subject) record(key string) tier.Record {
	return tier.Record{Key: []byte(key), Size: uint64(len(s.mem))}
}

func (s subject) write(key string, by time.Time) tier.Completion {
	s.t.Helper()
	return s.do(tier.Op{Kind: tier.Write, Record: s.record(key), Local: [][]byte{s.mem}, Deadline: by})
}

func (s subject) read(key string, at tier.Locator) tier.Completion {
	s.t.Helper()
	return s.do(tier.Op{Kind: tier.Read, Record: s.record(key), At: at, Local: [][]byte{s.mem}})
}

// wants requires how an operation ended.
func (s subject) wants(c tier.Completion, code errs.Code) tier.Completion {
	s.t.Helper()
	if errs.CodeOf(c.Err) != code || (c.Status == tier.OK) != (code == errs.OK) {
		s.t.Fatalf("%v: %v, want %v", c.Status, c.Err, code)
	}
	return c
}

// keys scans.
func (s subject) keys() (keys []string) {
	s.t.Helper()
	found, from := make([]tier.Found, 3), tier.Cursor{}
	for {
		n, next, err := s.Scan(s.t.Context(), from, found)
		check(s.t, err)
		if n == 0 {
			return keys
		}
		for _, f := range found[:n] {
			keys = append(keys, string(f.Record.Key))
		}
		from = next
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for by := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(by) {
			t.Fatal(what)
		}
	}
}

// TestTheServerIsKilled: operations fail with a hint, and the same tier goes on when the server is there again.
func TestTheServerIsKilled(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	s := open(t, c)
	at := s.wants(s.write("before", time.Time{}), errs.OK).At
	srv.kill()
	for _, f := range []tier.Completion{
		s.wants(s.read("before", at), errs.FileReadFail), s.wants(s.write("meanwhile", time.Time{}), errs.FileWriteFail),
	} {
		if errs.ClassOf(f.Err) != errs.ClassLocalDevice || !strings.Contains(f.Err.Error(), "check the endpoint") {
			t.Errorf("%v, class %v", f.Err, errs.ClassOf(f.Err))
		}
	}
	if err := s.Forget(t.Context(), []tier.Locator{at}); errs.CodeOf(err) != errs.FileWriteFail {
		t.Error(err)
	}
	check(t, s.Flush(t.Context())) // All that completed is durable.
	refused(t, c, errs.FileOpenFail, "check the endpoint")
	srv.revive()
	s.wants(s.read("before", at), errs.OK)
	s.wants(s.write("after", time.Time{}), errs.OK)
	check(t, s.Forget(t.Context(), []tier.Locator{at}))
	if next := open(t, c).keys(); len(next) != 1 || next[0] != "after" {
		t.Error(next)
	}
}

// TestAWriteThatIsGivenUp leaves no record, although the server carries its request out later.
func TestAWriteThatIsGivenUp(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	s := open(t, c)
	s.wants(s.write("before", time.Time{}), errs.OK)
	srv.freeze()
	defer srv.thaw()
	s.wants(s.write("given up", time.Now().Add(200*time.Millisecond)), errs.RPCTimeout)
	clear(s.mem) // It is free.
	srv.thaw()
	placeholders := func() (n int) {
		for _, path := range srv.objects(c.Prefix) {
			if info, err := os.Stat(path); err == nil && info.Size() < 64 && !strings.HasSuffix(path, "/volume") {
				n++
			}
		}
		return n
	}
	eventually(t, "the Write gets no placeholder", func() bool { return placeholders() == 1 })
	s.wants(s.write("after", time.Time{}), errs.OK)
	check(t, s.Stop(t.Context()))
	if next := open(t, c).keys(); len(next) != 2 || next[0] != "after" || next[1] != "before" {
		t.Error(next)
	}
	eventually(t, "the next start leaves the placeholder", func() bool { return placeholders() == 0 })
}

// TestAnAnswerThatIsLost: the Write is tried again, finds the object that the first try made, and is OK.
func TestAnAnswerThatIsLost(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	to, err := url.Parse(c.Endpoint)
	check(t, err)
	var writes atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && !strings.HasSuffix(r.Request.URL.Path, "/volume") && writes.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	between := httptest.NewServer(proxy)
	defer between.Close()
	c.Endpoint = between.URL
	s := open(t, c)
	at := s.wants(s.write("key", time.Time{}), errs.OK).At
	if writes.Load() != 2 {
		t.Errorf("%d tries, want 2", writes.Load())
	}
	s.wants(s.read("key", at), errs.OK)
	if keys := open(t, c).keys(); len(keys) != 1 {
		t.Error(keys)
	}
}

// TestAWipeThatIsGivenUp: until it is known whether it took effect, nothing is written that it would take away.
func TestAWipeThatIsGivenUp(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	s := open(t, c)
	s.wants(s.write("wiped", time.Time{}), errs.OK)
	before := s.Volume().Generation
	srv.freeze()
	defer srv.thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Wipe(ctx); errs.CodeOf(err) != errs.RPCTimeout {
		t.Fatal(err)
	}
	s.wants(s.write("refused", time.Time{}), errs.UnavailableInCurrentStatus)
	srv.thaw()
	check(t, s.Wipe(t.Context()))
	if g := s.Volume().Generation; g <= before || g > before+2 {
		t.Errorf("generation %d, was %d", g, before)
	}
	s.wants(s.write("kept", time.Time{}), errs.OK)
	next := open(t, c)
	if keys := next.keys(); next.Volume() != s.Volume() || len(keys) != 1 || keys[0] != "kept" {
		t.Error(keys, next.Volume(), s.Volume())
	}
	eventually(t, "objects of the first generation are left", func() bool { return len(srv.objects(c.Prefix)) == 2 }) // The volume and one record.
}

// TestAnotherProcess: the tier says that the volume was opened by another process. No record is lost and no locator is used twice.
func TestAnotherProcess(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	first := open(t, c)
	check(t, first.Flush(t.Context()))
	second := open(t, c)
	a, b := first.wants(first.write("a", time.Time{}), errs.OK).At, second.wants(second.write("b", time.Time{}), errs.OK).At
	if a == b {
		t.Error("a locator is used twice")
	}
	check(t, second.Flush(t.Context()))
	for _, err := range []error{first.Flush(t.Context()), first.Wipe(t.Context())} {
		if errs.CodeOf(err) != errs.UnavailableInCurrentStatus || !strings.Contains(err.Error(), "prefix of its own") {
			t.Error(err)
		}
	}
	if keys := open(t, c).keys(); len(keys) != 2 {
		t.Error(keys)
	}
}

// TestObjectsThatOthersChange are no records any more.
func TestObjectsThatOthersChange(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	s := open(t, c)
	at := s.wants(s.write("removed", time.Time{}), errs.OK).At
	for _, path := range srv.objects(c.Prefix) {
		if !strings.HasSuffix(path, "/volume") {
			check(t, os.Remove(path))
		}
	}
	s.wants(s.read("removed", at), errs.ObjectNotFound)
	if st, err := s.Stats(t.Context()); err != nil || st.Records != 0 || st.Used != 0 {
		t.Error(st, err)
	}
	s.wants(s.write("head", time.Time{}), errs.OK)
	for _, path := range srv.objects(c.Prefix) {
		if !strings.HasSuffix(path, "/volume") {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			check(t, err)
			_, err = f.WriteAt([]byte{'x'}, 65) // in the key
			check(t, err)
			check(t, f.Close())
		}
	}
	if keys := open(t, c).keys(); len(keys) != 0 {
		t.Error(keys)
	}
}

func TestCredentials(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	wrong := *c
	wrong.SecretKey = "wrong"
	refused(t, &wrong, errs.FileOpenFail, "check the credentials")
	c.AccessKey, c.SecretKey = "", ""
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	refused(t, c, errs.InvalidParams, "plugins.tier.s3.env")
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	s := open(t, c)
	s.wants(s.write("key", time.Time{}), errs.OK)
}

func TestWhatIsMissing(t *testing.T) {
	srv := newServer(t)
	c := srv.config()
	c.Bucket = "no-such-bucket"
	refused(t, c, errs.FileOpenFail, "create the bucket")
	refused(t, s3.Factory().DefaultConfig().(*s3.Config), errs.InvalidParams, "endpoint and bucket must be set")
}

func TestSettings(t *testing.T) {
	for name, set := range map[string]func(*s3.Config){
		"endpoint is":        func(c *s3.Config) { c.Endpoint = "127.0.0.1:9000" },
		"endpoint must":      func(c *s3.Config) { c.Endpoint = "http://host/path" },
		"bucket":             func(c *s3.Config) { c.Bucket = "A" },
		"prefix":             func(c *s3.Config) { c.Prefix = "a//b" },
		"prefix ends":        func(c *s3.Config) { c.Prefix = "a/" },
		"no prefix":          func(c *s3.Config) { c.Prefix = "" },
		"secret_key":         func(c *s3.Config) { c.AccessKey = "key" },
		"session_token":      func(c *s3.Config) { c.SessionToken = "token" },
		"capacity_bytes":     func(c *s3.Config) { c.CapacityBytes = 4<<20 - 1 },
		"requests":           func(c *s3.Config) { c.Requests = 0 },
		"timeout":            func(c *s3.Config) { c.Timeout = plugin.Duration(time.Millisecond) },
		"timeout, too large": func(c *s3.Config) { c.Timeout = plugin.Duration(time.Hour) },
	} {
		c := s3.Factory().DefaultConfig().(*s3.Config)
		c.Endpoint, c.Bucket = "https://s3.example.com", "bucket"
		check(t, plugin.Validate(c))
		if set(c); plugin.Validate(c) == nil {
			t.Error(name)
		}
	}
}
