package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ParseJSON parses one JSON value. Errors are of type *Error.
func ParseJSON(data []byte) (Node, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := checkBytes(data); err != nil {
		return Node{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	p := &jsonParser{dec: dec, data: data, line: 1}
	n, err := p.value(0)
	if err == nil {
		if _, e := dec.Token(); !errors.Is(e, io.EOF) {
			err = errorf(p.at(), "is not valid JSON: there is more text after the end of the value")
		}
	}
	if err != nil {
		return Node{}, err
	}
	return top(n)
}

// jsonParser builds nodes from tokens and counts the lines before them.
type jsonParser struct {
	dec    *json.Decoder
	data   []byte
	offset int // up to which line has counted
	line   int
	budget budget
}

// at returns the line of the last token.
func (p *jsonParser) at() int {
	end := min(int(p.dec.InputOffset()), len(p.data))
	p.line += bytes.Count(p.data[p.offset:end], []byte("\n"))
	p.offset = end
	return p.line
}

func (p *jsonParser) token() (json.Token, error) {
	t, err := p.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &syntax):
		end := min(int(syntax.Offset), len(p.data))
		return nil, errorf(1+bytes.Count(p.data[:end], []byte("\n")), "is not valid JSON: %v", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errorf(1+bytes.Count(bytes.TrimSpace(p.data), []byte("\n")), "is not valid JSON: it ends too early; a bracket or quote is not closed")
	default:
		return nil, errorf(p.at(), "is not valid JSON: %v", err)
	}
}

func (p *jsonParser) value(depth int) (Node, error) {
	t, err := p.token()
	if err != nil {
		return Node{}, err
	}
	line := p.at()
	if err := p.budget.take(line, depth); err != nil {
		return Node{}, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(line, depth)
		}
		return p.array(line, depth)
	case nil:
		return Node{Kind: Null, Line: line}, nil
	case json.Number:
		return number(t, line)
	default:
		return Node{Kind: Scalar, Line: line, Text: fmt.Sprint(t), Value: t}, nil
	}
}

func (p *jsonParser) object(line, depth int) (Node, error) {
	out, keys := Node{Kind: Map, Line: line}, seen{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return Node{}, err
		}
		at := p.at()
		key, ok := t.(string)
		if !ok {
			return Node{}, errorf(at, "is not valid JSON: a key must be a string")
		}
		if err := keys.add(key, at); err != nil {
			return Node{}, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return Node{}, err
		}
		v.Line = at
		out.Fields = append(out.Fields, Field{Key: key, Value: v})
	}
	_, err := p.token()
	return out, err
}

func (p *jsonParser) array(line, depth int) (Node, error) {
	out := Node{Kind: List, Line: line}
	for p.dec.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return Node{}, err
		}
		out.Items = append(out.Items, v)
	}
	_, err := p.token()
	return out, err
}

func number(text json.Number, line int) (Node, error) {
	n := Node{Kind: Scalar, Line: line, Text: text.String()}
	if i, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
		n.Value = i
	} else if u, err := strconv.ParseUint(n.Text, 10, 64); err == nil {
		n.Value = u
	} else if f, err := strconv.ParseFloat(n.Text, 64); err == nil {
		n.Value = f
	} else {
		return Node{}, errorf(line, "has a number that is too large: %s", n.Text)
	}
	return n, nil
}
