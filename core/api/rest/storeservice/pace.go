package storeservice

import (
	"io"
	"net/http"
	"time"
)

// A client sends and takes bytes at least at this pace, on average, or is cut off.
const (
	pace      = 256 << 10 // bytes a second
	paceGrace = 10 * time.Second
	step      = 256 << 10 // bytes moved between two looks at the time
)

// pacer sets the deadlines of one request's connection. Where there is no connection, as
// in some tests, it does nothing.
type pacer struct {
	control *http.ResponseController
	w       io.Writer
}

func newPacer(w http.ResponseWriter) *pacer {
	return &pacer{http.NewResponseController(w), w}
}

// forCall leaves the connection alone while the request is worked on: the answer has d, and
// a read deadline that passed would end the request.
func (p *pacer) forCall(d time.Duration) {
	_ = p.control.SetReadDeadline(time.Time{})
	_ = p.control.SetWriteDeadline(time.Now().Add(d))
}

// due is when moved bytes have to be there.
func due(start time.Time, moved int) time.Time {
	return start.Add(paceGrace + time.Duration(moved)*time.Second/pace)
}

// beforeRead gives the client time for the bytes behind the first got.
func (p *pacer) beforeRead(start time.Time, got int) {
	_ = p.control.SetReadDeadline(due(start, got))
}

// afterRead ends the deadline of the body.
func (p *pacer) afterRead() { _ = p.control.SetReadDeadline(time.Time{}) }

// write sends data at the client's speed.
func (p *pacer) write(data []byte) error {
	start := time.Now()
	for sent := 0; sent < len(data); {
		end := min(sent+step, len(data))
		_ = p.control.SetWriteDeadline(due(start, end))
		n, err := p.w.Write(data[sent:end])
		if err != nil {
			return err
		}
		sent += n
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(paceGrace)) // for what the server adds
	return nil
}
