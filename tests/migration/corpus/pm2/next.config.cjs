/* the shop,
   as it runs behind the proxy */
module.exports = {
  apps: [{
    name: "next",
    script: "node_modules/next/dist/bin/next",
    args: "start -p 3000",
    cwd: "/tmp",
    watch: false, // not in production
    env: {
      "NEXT_PUBLIC_URL": "https://example.com//shop",
      NODE_ENV: "production"
    },
  }]
}
