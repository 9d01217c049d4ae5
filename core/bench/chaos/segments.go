package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// segments asks the admin port of a master for the names of the mounted segments.
func (p *pool) segments(ctx context.Context, master int) (string, error) {
	body, err := p.get(ctx, master, "/get_all_segments")
	return string(body), err
}

// taken returns how many bytes of the segments are not free, and of which.
func (p *pool) taken(ctx context.Context) (n uint64, of string, err error) {
	leader, _, err := p.leader(ctx)
	if err != nil {
		return 0, "", err
	}
	body, err := p.get(ctx, leader, "/api/v1/segments")
	if err != nil {
		return 0, "", err
	}
	var answer struct {
		Data []struct {
			ID      string     `json:"id"`
			Used    uint64     `json:"used_bytes"`
			Writing uint64     `json:"unfinished_bytes"`
			Held    uint64     `json:"held_bytes"`
			Absent  *time.Time `json:"absent_since"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, "", fmt.Errorf("the segments of the master: %w", err)
	}
	for _, s := range answer.Data {
		if s.Absent != nil {
			return 0, "", fmt.Errorf("segment %s is absent", s.ID)
		}
		n += s.Used
		of += fmt.Sprintf("segment %s: used %d bytes, of them unfinished %d and held %d; ", s.ID, s.Used, s.Writing, s.Held)
	}
	return n, of, nil
}

// get returns what the admin port of a master answers.
func (p *pool) get(ctx context.Context, master int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(p.host, strconv.Itoa(p.ports[2*master+1])) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // The master that answers is about to be killed.
	resp, err := p.admin.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return body, err
}
