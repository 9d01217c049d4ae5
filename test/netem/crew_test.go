package netem

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// answerLimit bounds the wait for one answer of a member: more than any bound of the engine's.
const answerLimit = 4 * time.Minute

// worker is a member's process as the test sees it.
type worker struct {
	name    string
	proc    *cluster.Proc
	in      *os.File
	answers chan answer // closed at the end of the output
}

// nsenter is the process of a program in the namespace of one end of the link. It ends with the
// test.
func (l *link) nsenter(t testing.TB, end int, s cluster.Spec) *cluster.Proc {
	t.Helper()
	ns := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), l.ends[end].file.Fd())
	s.Args = append([]string{ns, s.Program}, s.Args...)
	s.Program = "nsenter"
	p, err := cluster.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// spec is the process of a member: this program, or with an interpreter the script.
func (m *member) spec(interpreter string) (cluster.Spec, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return cluster.Spec{}, err
	}
	if interpreter != "" {
		script, err := filepath.Abs("testdata/engine.py")
		if err != nil {
			return cluster.Spec{}, err
		}
		env := os.Environ()
		if interpreter == os.Getenv("NETEM_PYTHON") {
			// A sibling in another namespace is on this host, and would be reached without the link.
			env = append(env, "PYTHONPATH="+filepath.Join(filepath.Dir(script), "../../../sdk/python"), "MOONCAKE_STORE_SHARED_MEMORY=off")
		}
		return cluster.Spec{Program: interpreter, Args: []string{script, string(text)}, Env: env}, nil
	}
	self, err := os.Executable()
	return cluster.Spec{Program: self, Env: append(os.Environ(), memberEnv+"="+string(text))}, err
}

// member runs a member at one end, with the interpreter where one is given.
func (l *link) member(t testing.TB, end int, m member, interpreter string) *worker {
	t.Helper()
	m.Host = address[end]
	spec, err := m.spec(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{name: fmt.Sprintf("%s %d", m.Role, m.Number), in: in, answers: make(chan answer, 1)}
	spec.Name, spec.Stdin, spec.Stdout = w.name, stdin, stdout
	if os.Getenv("NETEM_LOG") != "" {
		spec.Log = os.Stderr
	}
	w.proc = l.nsenter(t, end, spec)
	stdin.Close()
	stdout.Close()
	go func() {
		defer out.Close()
		defer close(w.answers)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var a answer
			if json.Unmarshal(line, &a) == nil { // A library may write lines of its own.
				w.answers <- a
			}
		}
	}()
	t.Cleanup(func() { in.Close() })
	return w
}

// answer waits for the next one.
func (w *worker) answer(t testing.TB) answer {
	t.Helper()
	select {
	case a, ok := <-w.answers:
		if !ok {
			t.Fatalf("%s ended without an answer:\n%s", w.name, w.proc.Tail())
		}
		return a
	case <-time.After(answerLimit):
		t.Fatalf("%s has not answered for %v:\n%s", w.name, answerLimit, w.proc.Tail())
	}
	return answer{}
}

// all sends a command to every worker at once and returns the sum of their answers. Seconds is the
// longest.
func all(t testing.TB, workers []*worker, command string) answer {
	t.Helper()
	for _, w := range workers {
		if _, err := io.WriteString(w.in, command+"\n"); err != nil {
			t.Fatalf("%s: %v:\n%s", w.name, err, w.proc.Tail())
		}
	}
	return gather(t, workers)
}

func gather(t testing.TB, workers []*worker) answer {
	t.Helper()
	sum := answer{Failed: map[string]int{}, Notes: map[string]string{}}
	for _, w := range workers {
		a := w.answer(t)
		sum.Requests += a.Requests
		sum.Wrong += a.Wrong
		sum.Seconds = max(sum.Seconds, a.Seconds)
		for code, n := range a.Failed {
			sum.Failed[code] += n
		}
		maps.Copy(sum.Notes, a.Notes)
		sum.Peer = a.Peer
	}
	return sum
}
