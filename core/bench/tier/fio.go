package tier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// errNoFio says that there is no program fio.
var errNoFio = errors.New("fio is not installed (apt install fio)")

// speed is what a measurement saw.
type speed struct {
	MBPerS   float64 // 10^6 bytes a second
	CPUPerGB float64 // processor seconds for 10^9 bytes
}

// fio measures the disk below a tier with the program fio: the same sizes and depths, direct I/O
// from memory on huge pages where there is some.
type fio struct {
	program, folder string
	engine, memory  string // as fio calls them
	size, record    int64
}

// newFio looks for fio, and for the best engine and memory that it and the kernel have. Huge pages
// need vm.nr_hugepages, or a fio that knows transparent ones.
func newFio(ctx context.Context, o Options, folder string) (*fio, error) {
	program, err := exec.LookPath("fio")
	if err != nil {
		return nil, errNoFio
	}
	f := &fio{program: program, folder: folder, size: int64(o.Records) * int64(o.RecordSize), record: int64(o.RecordSize)}
	for _, f.engine = range []string{"io_uring", "libaio"} {
		for _, f.memory = range []string{"shmhuge", "thp", smallPages} {
			if _, err = f.measure(ctx, "write", maxDepth); err == nil {
				return f, nil
			}
		}
	}
	return nil, err
}

// smallPages is memory on pages of 4 KiB.
const smallPages = "mmap"

func (f *fio) name() string {
	if f.memory == smallPages {
		return "fio " + f.engine + ", small pages"
	}
	return "fio " + f.engine + ", huge pages"
}

// measure reads in random order, or writes from the first byte to the last.
func (f *fio) measure(ctx context.Context, rw string, depth int) (speed, error) {
	var out, bad bytes.Buffer
	cmd := exec.CommandContext(ctx, f.program, "--name=tier", "--filename="+filepath.Join(f.folder, "fio"), "--rw="+rw, "--direct=1",
		"--ioengine="+f.engine, "--iodepth="+strconv.Itoa(depth), "--bs="+strconv.FormatInt(f.record, 10), "--size="+strconv.FormatInt(f.size, 10),
		"--iomem="+f.memory, "--output-format=json")
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		return speed{}, fmt.Errorf("fio: %w: %s", err, bytes.TrimSpace(bad.Bytes()))
	}
	return readFio(out.Bytes(), rw)
}

// readFio reads what fio printed.
func readFio(text []byte, rw string) (speed, error) {
	type direction struct {
		Bytes     float64 `json:"io_bytes"`
		RuntimeMS float64 `json:"runtime"`
	}
	var doc struct {
		Jobs []struct {
			Error       int       `json:"error"`
			Read, Write direction //nolint:tagliatelle // fio's names.
			User        float64   `json:"usr_cpu"` // percent of the runtime
			System      float64   `json:"sys_cpu"`
		} `json:"jobs"`
	}
	if i := bytes.IndexByte(text, '{'); i > 0 { // fio prints notes before the document.
		text = text[i:]
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return speed{}, fmt.Errorf("fio: its output is not what was expected: %w", err)
	}
	if len(doc.Jobs) != 1 || doc.Jobs[0].Error != 0 {
		return speed{}, fmt.Errorf("fio: the measurement failed: %s", bytes.TrimSpace(text))
	}
	j := doc.Jobs[0]
	d := j.Read
	if rw == "write" {
		d = j.Write
	}
	if d.Bytes <= 0 {
		return speed{}, errors.New("fio: it moved no bytes")
	}
	seconds := max(d.RuntimeMS, 1) / 1e3 // fio counts whole milliseconds.
	return speed{MBPerS: d.Bytes / 1e6 / seconds, CPUPerGB: (j.User + j.System) / 100 * seconds / (d.Bytes / 1e9)}, nil
}
