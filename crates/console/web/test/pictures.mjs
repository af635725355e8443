// Draws pictures of the console's pages: `node test/pictures.mjs URL FOLDER [NAME=HASH[=KEY]]…`. With `SMALL=1` only the
// light and dark ones at a size for documents, as WebP; scripts/console_pictures.sh calls it so.
import { Browser } from "./browser.mjs";

const [url, folder, ...pages] = process.argv.slice(2);
const browser = await Browser.launch();
try {
  const isSmall = process.env.SMALL === "1";
  const variants = [["light", 1280, 800, false], ["dark", 1280, 800, true], ["phone", 360, 740, false]];
  for (const [variant, width, height, dark] of isSmall ? variants.slice(0, 2) : variants) {
    const page = await browser.open(width, height, { dark });
    await page.go(url);
    await page.until("window.homeostat?.isSynced", "the page has read everything");
    for (const item of pages) {
      const [name, hash, key] = item.split("=");
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await new Promise((done) => setTimeout(done, 1500));
      if (key) await page.press(key);
      await new Promise((done) => setTimeout(done, 500));
      await page.picture(`${folder}/${name}-${variant}.${isSmall ? "webp" : "png"}`);
    }
    if (page.complaints.length > 0) console.log(variant, page.complaints);
  }
} finally {
  await browser.close();
}
