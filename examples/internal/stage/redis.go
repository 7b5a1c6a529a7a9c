package stage

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// StartRedis returns the address of a Redis for several processes: the one given, or that of an
// imitation in this process if there is none.
func StartRedis(addr string) (used string, stop func(), err error) {
	if addr != "" {
		return addr, func() {}, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return "", nil, err
	}
	fmt.Printf("an imitation of Redis is on %s\n", embedded.Addr())
	return embedded.Addr(), embedded.Close, nil
}
