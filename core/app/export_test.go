package app

// Echo is how long the signals after the first one do not count.
const Echo = echo
