package s3_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	s3 "example.com/tier-s3"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// gateway is the program of a real S3 server, Versity's gateway, whose version testserver/go.mod pins. why says why there
// is none.
var gateway, why string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tier-s3-")
	if err != nil {
		panic(err)
	}
	gateway = filepath.Join(dir, "versitygw")
	cmd := exec.Command("go", "build", "-o", gateway, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = "testserver"
	if out, err := cmd.CombinedOutput(); err != nil {
		why = fmt.Sprintf("there is no S3 server: go build in testserver: %v\n%s", err, out)
	}
	if err := certificate(dir); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", filepath.Join(dir, "cert.pem")) // Go reads it once, so all tests trust it.
	tlsFlags = []string{"--cert", filepath.Join(dir, "cert.pem"), "--key", filepath.Join(dir, "key.pem")}
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// tlsFlags make the server speak TLS.
var tlsFlags []string

// certificate writes one for 127.0.0.1, and its key.
func certificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

const bucket, accessKey, secretKey = "records", "tester", "a-secret-of-the-test"

// server is a running S3 server.
type server struct {
	t       testing.TB
	address string
	dir     string // has the bucket; an object is a file
	flags   []string
	cmd     *exec.Cmd
	volumes atomic.Int64
}

// newServer starts a server that ends with the test.
func newServer(t testing.TB, flags ...string) *server {
	t.Helper()
	if why != "" {
		t.Skip(why)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s := &server{t: t, address: l.Addr().String(), dir: t.TempDir(), flags: flags}
	check(t, l.Close())
	check(t, os.Mkdir(filepath.Join(s.dir, bucket), 0o755))
	s.start()
	t.Cleanup(s.kill)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts it, also again after kill. Its objects are there.
func (s *server) start() {
	s.cmd = exec.Command(gateway, slices.Concat([]string{"--port", s.address, "--quiet"}, s.flags, []string{"posix", s.dir})...)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(s.t, s.cmd.Start())
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for by := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r, err := client.Get(s.url())
		if err == nil {
			r.Body.Close()
			return
		}
		if time.Now().After(by) {
			s.t.Fatalf("the server does not answer: %v", err)
		}
	}
}

func (s *server) url() string {
	if len(s.flags) > 0 {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// kill ends it at once, as kill -9 does. Repeatable.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// revive starts it if it was killed.
func (s *server) revive() {
	if s.cmd == nil {
		s.start()
	}
}

// freeze stops it until thaw. It returns when all of its threads stand still.
func (s *server) freeze() {
	check(s.t, s.cmd.Process.Signal(syscall.SIGSTOP))
	for moving := true; moving; time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		moving = len(threads) == 0
		for _, f := range threads {
			stat, _ := os.ReadFile(f) // A thread that has ended is still enough.
			_, after, _ := strings.Cut(string(stat), ") ")
			moving = moving || after != "" && after[0] != 'T'
		}
	}
}

func (s *server) thaw() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// config is that of a new, empty volume.
func (s *server) config() *s3.Config {
	c := s3.Factory().DefaultConfig().(*s3.Config)
	c.Endpoint, c.Bucket, c.Prefix = s.url(), bucket, fmt.Sprint("pools/", s.volumes.Add(1))
	c.AccessKey, c.SecretKey, c.CapacityBytes = accessKey, secretKey, 8<<20
	return c
}

func (s *server) configs(conformance.TB) plugin.Config { return s.config() }

// objects lists the files below a prefix.
func (s *server) objects(prefix string) (paths []string) {
	_ = filepath.WalkDir(filepath.Join(s.dir, bucket, prefix), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil // Files come and go.
	})
	return paths
}

// damage flips a bit of the object with this value, below a prefix. It reports whether there is one.
func (s *server) damage(prefix string, value []byte) bool {
	for _, path := range s.objects(prefix) {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(text, value) {
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(s.t, err)
		_, err = f.WriteAt([]byte{text[len(text)-1] ^ 1}, int64(len(text)-1))
		check(s.t, err)
		check(s.t, f.Close())
		return true
	}
	return false
}
