package objects

// Current says whether a key can be read, and in which group it is. It counts as no access.
func (t *Table) Current(key string) (group string, readable bool) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if o == nil || !o.has(complete) || !o.alive() {
		return "", false
	}
	return o.group(), true
}
