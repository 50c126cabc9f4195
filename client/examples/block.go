// block.go PORT NAME COUNT - prints COUNT ids, from hilod in blocks, with redigo.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// Ids makes a function that returns the next id; goroutines may share it.
func Ids(conn redis.Conn, name string) func() (int64, error) {
	var lock sync.Mutex
	var id, last, step int64
	return func() (int64, error) {
		lock.Lock()
		defer lock.Unlock()
		if id == last {
			block, err := redis.Int64s(conn.Do("BLOCK", name, 1000))
			if err != nil {
				return 0, err
			}
			id, last, step = block[0]-block[2], block[1], block[2]
		}
		id += step
		return id, nil
	}
}

func main() {
	conn, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1])
	next, id := Ids(conn, os.Args[2]), int64(0)
	for count, _ := strconv.Atoi(os.Args[3]); err == nil && count > 0; count-- {
		id, err = next()
		fmt.Println(id)
	}
}
