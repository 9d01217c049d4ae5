package wheels

import (
	"bufio"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

const (
	// patience bounds each call, and each wait of a test. A call that meets a dead master or node
	// takes up to 30 s in upstream's client; reaching the bound is a failure.
	patience = 2 * time.Minute
	// segment is the memory that a node gives to the pool, buffer what its client keeps for itself.
	segment = 96 << 20
	buffer  = 32 << 20
)

// client is a process with upstream's client, testdata/client.py.
type client struct {
	version string
	proc    *cluster.Proc
	in      *os.File
	answers chan []byte // closed with the process's output
	name    string      // of its segment
}

// startClient starts one that gives size bytes to the pool; env adds to its environment.
func startClient(t testing.TB, version string, m *master, size int, env ...string) *client {
	t.Helper()
	u := launchClient(t, version, env)
	args := map[string]any{"call": "setup", "master": m.rpc, "segment": size, "buffer": buffer}
	if onDevices {
		args["protocol"], args["device"] = "rdma", theirsDevice
	}
	a := u.call(t, args)
	require.Equal(t, []int{0}, a.RCs, "set-up of %s", version)
	u.name = a.Name
	return u
}

// launchClient starts one that has not set itself up.
func launchClient(t testing.TB, version string, env []string) *client {
	t.Helper()
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	u := &client{version: version, in: in, answers: make(chan []byte, 1)}
	u.proc, err = cluster.Start(cluster.Spec{
		Name: "client " + version, Program: filepath.Join(environment(version), "bin", "python"), Args: []string{"testdata/client.py"},
		Env: append(environ(version), env...), Stdin: stdin, Stdout: stdout,
	})
	stdin.Close()
	stdout.Close()
	require.NoError(t, err)
	go u.read(out)
	t.Cleanup(func() {
		u.kill()
		in.Close()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", u.proc.Name, u.proc.Tail())
		}
	})
	return u
}

func (u *client) read(out *os.File) {
	defer out.Close()
	defer close(u.answers)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		select {
		case u.answers <- append([]byte(nil), s.Bytes()...):
		case <-u.proc.Done():
			return
		}
	}
}

// kill ends the process with SIGKILL.
func (u *client) kill() { u.proc.Kill() }

// answer is what a call gives; each call sets its own fields.
type answer struct {
	RCs      []int
	Name     string
	Values   []*value
	Replicas [][]replica
	Counts   map[string]int
	Faults   []string
	Error    string
}

// value is what was got, nil for nothing.
type value struct {
	Size   int
	SHA256 string
}

type replica struct {
	Complete bool
	Endpoint string
	Size     int
}

// call runs a function of testdata/client.py.
func (u *client) call(t testing.TB, args map[string]any) answer {
	t.Helper()
	u.send(t, args)
	return u.answer(t, patience, args)
}

func (u *client) send(t testing.TB, args map[string]any) {
	t.Helper()
	text, err := json.Marshal(args)
	require.NoError(t, err)
	_, err = u.in.Write(append(text, '\n'))
	require.NoError(t, err)
}

func (u *client) answer(t testing.TB, limit time.Duration, args map[string]any) answer {
	t.Helper()
	var a answer
	select {
	case text, ok := <-u.answers:
		require.True(t, ok, "the process of %s ended in %v", u.version, args["call"])
		require.NoError(t, json.Unmarshal(text, &a), "%s", text)
		require.Empty(t, a.Error, "%s: %v", u.version, args["call"])
	case <-time.After(limit):
		require.FailNow(t, "no answer", "%s: %v has not answered within %s", u.version, args["call"], limit)
	}
	return a
}

// object is a key with the size and generation of its content.
type object struct {
	key              string
	generation, size int
}

// objects makes one of each size.
func objects(prefix string, generation int, sizes ...int) []object {
	out := make([]object, len(sizes))
	for i, n := range sizes {
		out[i] = object{fmt.Sprintf("%s/%d", prefix, i), generation, n}
	}
	return out
}

// content is the one of testdata/client.py.
func (o object) content() []byte {
	b := make([]byte, max(8, o.size))
	binary.LittleEndian.PutUint64(b, uint64(o.generation))
	h := sha3.NewSHAKE128()
	_, _ = h.Write(b[:8])
	_, _ = h.Write([]byte(o.key))
	_, _ = h.Read(b[8:])
	return b[:o.size]
}

func (o object) value() *value { return digest(o.content()) }

func digest(b []byte) *value {
	sum := sha256.Sum256(b)
	return &value{Size: len(b), SHA256: hex.EncodeToString(sum[:])}
}

// columns are the keys and sizes of objects.
func columns(objects []object) (keys []string, sizes []int) {
	for _, o := range objects {
		keys, sizes = append(keys, o.key), append(sizes, o.size)
	}
	return keys, sizes
}

// put puts objects, which are all of one generation, with a function of the package and returns
// its results: one for each object, or one for all.
func (u *client) put(t testing.TB, how string, config map[string]any, objects []object) []int {
	t.Helper()
	keys, sizes := columns(objects)
	return u.call(t, map[string]any{"call": "put", "how": how, "keys": keys, "sizes": sizes, "generation": objects[0].generation, "config": config}).RCs
}

// mustPut is put, and each has to succeed.
func (u *client) mustPut(t testing.TB, how string, config map[string]any, objects []object) {
	t.Helper()
	for i, rc := range u.put(t, how, config, objects) {
		require.Zero(t, rc, "%s: %s of %s", u.version, how, objects[i].key)
	}
}

// get gets objects with a function of the package.
func (u *client) get(t testing.TB, how string, objects []object) []*value {
	t.Helper()
	keys, sizes := columns(objects)
	a := u.call(t, map[string]any{"call": "get", "how": how, "keys": keys, "sizes": sizes})
	require.Len(t, a.Values, len(objects), "%s: %s", u.version, how)
	return a.Values
}

// mustGet is get, and each has to be there with its content.
func (u *client) mustGet(t testing.TB, how string, objects []object) {
	t.Helper()
	for i, v := range u.get(t, how, objects) {
		require.Equal(t, objects[i].value(), v, "%s: %s of %s, %d bytes", u.version, how, objects[i].key, objects[i].size)
	}
}

// held gets objects one by one and returns how many are there. A wrong content fails the test.
func (u *client) held(t testing.TB, objects []object) int {
	t.Helper()
	n := 0
	for i, v := range u.get(t, "get_into", objects) {
		if v != nil {
			n++
			require.Equal(t, objects[i].value(), v, "%s: %s", u.version, objects[i].key)
		}
	}
	return n
}

func (u *client) exist(t testing.TB, how string, keys ...string) []int {
	t.Helper()
	return u.call(t, map[string]any{"call": "exist", "how": how, "keys": keys}).RCs
}

func (u *client) remove(t testing.TB, how string, force bool, keys ...string) []int {
	t.Helper()
	return u.call(t, map[string]any{"call": "remove", "how": how, "force": force, "keys": keys}).RCs
}

func (u *client) replicas(t testing.TB, how string, keys ...string) [][]replica {
	t.Helper()
	return u.call(t, map[string]any{"call": "replicas", "how": how, "keys": keys}).Replicas
}

func (u *client) close(t testing.TB) {
	t.Helper()
	require.Equal(t, []int{0}, u.call(t, map[string]any{"call": "close"}).RCs)
}
