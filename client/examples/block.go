// block.go PORT NAME COUNT - prints COUNT ids, from hilod in blocks, with redigo.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"

	"github.com/gomodule/redigo/redis"
)

func Ids(address, name string) func() int64 {
	var lock sync.Mutex
	var id, last, step int64
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	return func() int64 {
		lock.Lock()
		defer lock.Unlock()
		if id == last {
			conn := pool.Get()
			block, err := redis.Int64s(conn.Do("BLOCK", name, 1000))
			conn.Close()
			if err != nil {
				log.Fatal(err)
			}
			id, last, step = block[0]-block[2], block[1], block[2]
		}
		id += step
		return id
	}
}
func main() {
	next := Ids("127.0.0.1:"+os.Args[1], os.Args[2])
	for count, _ := strconv.Atoi(os.Args[3]); count > 0; count-- {
		fmt.Println(next())
	}
}
